"""``nel list``: list the benchmarks by group."""

import json
from dataclasses import asdict
from itertools import groupby
from typing import Any, Final

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
    if source in ("all", "builtin"):
        facts: list[dict[str, Any]] = [benchmark_facts(name) for name in list_environments()]
    else:
        facts = []
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
        if source == scheme or (source == "all" and SCHEMES.get(scheme).missing is None):
            missing = SCHEMES.get(scheme).missing
            data_note = f" (data in {data_dir})" if data_dir else ""
            if missing:
                usage = f"{scheme}:// benchmarks are {missing}"
            else:
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
        return {**facts, "group": "custom", "description": (environment.__doc__ or "").strip()}
    info = asdict(definition.info)
    info["needs"], info["columns"] = list(info["needs"]), list(info["columns"])
    info["url"] = info.pop("source")
    fewshot = bool(definition.fewshot_split or definition.fewshot_dataset)
    return {**facts, **info, "fewshot": fewshot, "description": definition.description}


def _print(facts: list[JsonDict]) -> None:
    """Print benchmarks by group, in a fixed order of groups."""

    def place(fact: JsonDict) -> tuple[int, str]:
        """Return the sort key of a benchmark's group."""
        group = fact["group"]
        return (_ORDER.index(group) if group in _ORDER else len(_ORDER), group)

    width = max(len(fact["name"]) for fact in facts)
    for (_, group), members in groupby(sorted(facts, key=place), key=place):
        click.echo(f"\n{group}")
        for fact in members:
            if fact.get("size"):
                size = f"{fact['size']:,}"
            else:
                size = "-"
            if fact.get("needs"):
                needs = f"  needs {', '.join(fact['needs'])}"
            else:
                needs = ""
            text = f"{fact.get('scorer', '')}{needs}  [{fact.get('license', '')}]"
            mark = f"{fact['name']:<{width}}  {size:>7}  "
            click.echo("\n".join(wrapped(text, width=terminal_width(), mark=mark)))
