"""``nel list``: list the benchmarks by group."""

import json
from dataclasses import asdict
from itertools import groupby
from typing import Final

import click

from nemo_evaluator.cli._options import option
from nemo_evaluator.config.groups import SCHEMES
from nemo_evaluator.core.terminal import terminal_width
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import wrapped
from nemo_evaluator.environments.registry import (
    builtin_names,
    environment_class,
    list_environments,
)
from nemo_evaluator.environments.schemes import lm_eval

_SOURCES: Final = ("all", "builtin", "skills", "lm-eval")
_ORDER: Final = ("start", "knowledge", "math", "reasoning", "common sense", "reading", "facts", "instructions", "code",
                 "tools", "vision", "health", "safety")  # fmt: skip


@click.command("list")
@option(
    "--source", "-s", type=click.Choice(_SOURCES), default="all", help="Which benchmarks to list."
)
@option("--data-dir", help="Folder with downloaded data for skills:// benchmarks.")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def list_benchmarks(source: str, data_dir: str | None, as_json: bool) -> None:
    """List benchmarks: problems, scorer, what they need, licence."""
    facts: list[JsonDict] = []
    if source in ("all", "builtin"):
        facts = [benchmark_facts(name) for name in list_environments()]
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    if facts:
        _print(facts)
        click.echo("\nRun one with: nel eval run --bench NAME --model-url URL --model-id ID")
    if source == "lm-eval":
        for name in lm_eval.task_names():
            click.echo(f"lm-eval://{name}")
        return
    for scheme in ("skills", "lm-eval"):
        missing = SCHEMES.get(scheme).missing
        if source == scheme or (source == "all" and missing is None):
            usage = f"{scheme}:// benchmarks are {missing}"
            if not missing:
                data_note = f" (data in {data_dir})" if data_dir else ""
                usage = f"name one as {scheme}://TASK{data_note}"
            click.echo(f"\n{scheme}://\n  {usage}")


def benchmark_facts(name: str) -> JsonDict:
    """Return the facts of a registered benchmark as JSON data."""
    environment = environment_class(name)
    definition = getattr(environment, "definition", None)
    facts: JsonDict = {
        "name": name,
        "source": "builtin" if name in builtin_names() else "registered",
    }
    if definition is None:
        facts["group"] = "custom"
        facts["description"] = (environment.__doc__ or "").strip()
        return facts
    info = asdict(definition.info)
    info["needs"] = list(info["needs"])
    info["columns"] = list(info["columns"])
    info["url"] = info.pop("source")
    facts |= info
    facts["fewshot"] = bool(definition.fewshot_split or definition.fewshot_dataset)
    facts["description"] = definition.description
    return facts


def _print(facts: list[JsonDict]) -> None:
    """Print benchmarks by group, in a fixed order of groups."""
    width = max(len(fact["name"]) for fact in facts)
    in_order = sorted(facts, key=lambda fact: _group_order(fact["group"]))
    for group, members in groupby(in_order, key=lambda fact: fact["group"]):
        click.echo(f"\n{group}")
        for fact in members:
            size = f"{fact['size']:,}" if fact.get("size") else "-"
            text = fact.get("scorer", "")
            if fact.get("needs"):
                text += f"  needs {', '.join(fact['needs'])}"
            text += f"  [{fact.get('license', '')}]"
            mark = f"{fact['name']:<{width}}  {size:>7}  "
            click.echo("\n".join(wrapped(text, width=terminal_width(), mark=mark)))


def _group_order(group: str) -> tuple[int, str]:
    """Return the sort key of a group: unknown groups come last, by name."""
    if group in _ORDER:
        return _ORDER.index(group), group
    return len(_ORDER), group
