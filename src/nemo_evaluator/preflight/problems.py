"""Everything that would keep a config from running, found at once and before anything is started or written.

``nel config check``, ``nel eval run`` and ``--dry-run`` show the same list.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from pydantic import BaseModel

from nemo_evaluator.config import (
    BenchmarkConfig,
    EvalConfig,
    LoadedConfig,
    OutputConfig,
    ScoringConfig,
)
from nemo_evaluator.config.fields import NotYet
from nemo_evaluator.config.groups import SCHEMES
from nemo_evaluator.config.kinds import KindOf, marks
from nemo_evaluator.core.errors import NelError, Problem, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.kinds import NOT_YET
from nemo_evaluator.core.registry import did_you_mean, find_file
from nemo_evaluator.datasets.settings import use_datasets
from nemo_evaluator.decisions.stop_rule import check_baselines
from nemo_evaluator.engine.plan import Shard, chosen_problems
from nemo_evaluator.engine.template import InstructionTemplate, load_template
from nemo_evaluator.engine.verify import JUDGES, NEEDS_JUDGE, judge_hint, lacks_judge
from nemo_evaluator.environments.base import EnvironmentFacts
from nemo_evaluator.environments.registry import (
    as_uri,
    environment_class,
    get_environment,
    list_environments,
)
from nemo_evaluator.exporters import get_exporter
from nemo_evaluator.models import endpoint_of
from nemo_evaluator.models.cost import price_of
from nemo_evaluator.preflight.site_checks import check_site, disk_cautions, ping, registry_cautions
from nemo_evaluator.solvers.base import SANDBOX

Path = tuple[str | int, ...]
Found = tuple[Path, str, str]
_NO_HINT = "see the message"
# Known from the reference's examples and playbooks; their harness is not here yet.
_PLANNED = frozenset({"research-bench"})
_PRICE = "add price: {input: ..., output: ...} (USD per million tokens) to the service, or limit tokens instead of usd"


def find_problems(
    loaded: LoadedConfig,
    shard: Shard | None = None,
    *,
    file_only: bool = False,
    pinging: bool = False,
) -> list[Problem]:
    """Every problem: kinds, names, exports, budgets, and what opening the benchmarks shows. Cautions are added to the
    config's warnings.

    With ``file_only`` it is what is wrong with the file itself: kinds that are not supported yet, and names that
    nothing answers to. With ``pinging`` every endpoint is asked one short question.

    Datasets are opened and one problem of each benchmark is made; sandboxes are tried. On a cluster that is done by
    the run itself, where it has them.
    """
    problems: list[Problem] = []
    for one in (*unsupported(loaded.config), *_unknown(loaded.config)):
        problems.append(loaded.document.problem(*one))
    if file_only:
        return problems
    unknown = {problem.path for problem in problems}
    found = asyncio.run(_around(loaded, unknown, shard, pinging=pinging))
    return problems + [loaded.document.problem(*one) for one in dict.fromkeys(found)]


async def _around(
    loaded: LoadedConfig, unknown: set[str], shard: Shard | None, *, pinging: bool
) -> list[Found]:
    """What is wrong with what the config stands on, but not for benchmarks that are ``unknown`` anyway."""
    config = loaded.config
    found = [*_raised(("output", "export"), _check_exports, config.output), *_prices(config)]
    found += _raised(("benchmarks",), check_baselines, config, shard)
    found += check_site(config)
    cautions = [*disk_cautions(config), *registry_cautions(config)]
    loaded.warnings += [words for words in cautions if words not in loaded.warnings]
    if pinging:
        found += [one async for one in ping(config)]
    if config.cluster.type == "local":
        use_datasets(config.datasets)
        for number, bench in enumerate(config.benchmarks):
            if not any(path.startswith(f"benchmarks[{number}]") for path in unknown):
                found += [one async for one in _opened(bench, ("benchmarks", number))]
    return found


def _check_exports(output: OutputConfig) -> None:
    """Raise a NelError for an exporter that cannot work (unknown, wrongly set, not installed) before the run."""
    for name, settings in output.exporters.items():
        get_exporter(name, **settings)


def unsupported(config: EvalConfig) -> Iterator[Found]:
    """Kinds whose declaration says ``missing``, and settings that are marked ``NotYet``."""
    return _unsupported(config, (), list(config.sandboxes.values()))


def _unsupported(model: BaseModel, path: Path, named: list[Any]) -> Iterator[Found]:
    groups = {name: mark.kinds for name, mark in marks(type(model), KindOf)}
    for name, mark in marks(type(model), NotYet):
        if name in model.model_fields_set and getattr(model, name):
            yield (*path, name), f"the setting {name!r} is {mark.reason}", "remove it"
    for name in type(model).model_fields:
        for place, one in _models(getattr(model, name), (*path, name)):
            if place[-1] == "sandbox" and one in named:
                # Spoken of where it is defined.
                continue
            kinds = groups.get(name)
            word = getattr(one, "type", "")
            if kinds is not None and (missing := kinds.get(word).missing) is not None:
                message = f"{kinds.kind} {word!r} is {missing}"
                yield (*place, "type"), message, f"supported: {', '.join(kinds.ready())}"
            yield from _unsupported(one, place, named)


def _models(value: Any, path: Path) -> Iterator[tuple[Path, BaseModel]]:
    """The schema objects in a field, in lists and in mappings."""
    if isinstance(value, BaseModel):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _models(item, (*path, str(key)))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _models(item, (*path, number))


async def _opened(bench: BenchmarkConfig, path: Path) -> AsyncIterator[Found]:
    """What shows when a benchmark is opened: its file, its parameters, its dataset, its columns, what it needs."""
    if "://" in as_uri(bench.name):
        # Some are reached through services that are not up yet.
        return
    try:
        with boundary(Cause.SEED):
            environment = get_environment(
                bench.name, num_fewshot=bench.fewshot, params=bench.params
            )
    except NelError as error:
        yield _said(error, (*path, "name"))
        return
    try:
        facts = environment.facts()
        for one in _unjudged(bench.scoring, bench.name, facts, path=(*path, "scoring")):
            yield one
        if bench.sandbox.type != "none" or SANDBOX in facts.needs:
            async for one in _sandbox(bench, (*path, "sandbox")):
                yield one
        place = "name"
        try:
            with boundary(Cause.SEED):
                chosen = await chosen_problems(environment, bench.only)
                if await environment.dataset_size():
                    await environment.prepare()
                    problem = await environment.seed(chosen[0] if chosen else 0)
                    place = "instruction_template"
                    text = load_template(bench.instruction_template)
                    if text:
                        InstructionTemplate(text).apply(problem)
        except NelError as error:
            yield _said(error, (*path, "only" if bench.only and "hash" in error.message else place))
    finally:
        await environment.close()


async def _sandbox(bench: BenchmarkConfig, path: Path) -> AsyncIterator[Found]:
    wanted = None if bench.sandbox.type == "none" else bench.sandbox
    try:
        from nemo_evaluator.sandbox.manager import SandboxManager  # noqa: PLC0415 - most configs need no sandbox

        manager = SandboxManager(wanted, "preflight")
        try:
            await manager.check()
        finally:
            await manager.close()
    except NelError as error:
        yield _said(error, path)


def _prices(config: EvalConfig) -> Iterator[Found]:
    """Budgets in money over services whose price nobody knows: a limit that cannot be watched is no limit."""
    everywhere = config.budget is not None and config.budget.usd is not None
    for number, bench in enumerate(config.benchmarks):
        blocks = {"budget": bench.budget, "step_limits": bench.step_limits}
        own = next(
            (name for name, block in blocks.items() if block is not None and block.usd is not None),
            None,
        )
        if own is None and not everywhere:
            continue
        if own:
            path: Path = ("benchmarks", number, own, "usd")
        else:
            path = ("budget", "usd")
        judges = [getattr(metric, "service", None) for metric in bench.scoring.metrics]
        for name in dict.fromkeys([bench.solver.model_service, *judges]):
            if name is None or name not in config.model_services():
                continue
            try:
                known = (
                    price_of(endpoint_of(name, config.services[name], url=config.base_url(name)))
                    is not None
                )
            except NelError as error:
                yield _said(error, ("services", name))
                continue
            if not known:
                yield path, f"a budget in USD needs the price of service {name!r}", _PRICE


def _raised(
    path: Path, look: Callable[..., object], *given: object, hint: str = _NO_HINT
) -> list[Found]:
    try:
        look(*given)
    except NelError as error:
        return [_said(error, path, hint)]
    return []


def _said(error: NelError, path: Path, hint: str = _NO_HINT) -> Found:
    if isinstance(error.__cause__, NelError) and not error.hint:
        error = error.__cause__
    return path, error.message, error.hint or hint


def _unknown(config: EvalConfig) -> Iterator[Found]:
    for number, benchmark in enumerate(config.benchmarks):
        unknown = list(_benchmark(benchmark.name, ("benchmarks", number, "name")))
        name = as_uri(benchmark.name)
        yield from unknown
        # Those in files and behind URIs say when they are opened that they need a judge.
        if not unknown and "://" not in name and ".py" not in name:
            facts = environment_class(name).facts()
            yield from _unjudged(
                benchmark.scoring, name, facts, path=("benchmarks", number, "scoring")
            )
        for place, metric in enumerate(benchmark.scoring.metrics):
            file = getattr(metric, "rubric_file", None)
            if file is not None:
                path = ("benchmarks", number, "scoring", "metrics", place, "rubric_file")
                yield from _raised(path, find_file, file, hint="")
        place_of = ("benchmarks", number, "instruction_template")
        yield from _raised(
            place_of, load_template, benchmark.instruction_template, hint="give a path, or off"
        )


def _benchmark(name: str, path: Path) -> Iterator[Found]:
    scheme, separator, _ = as_uri(name).partition("://")
    if separator:
        why = SCHEMES.get(scheme).missing
        if why is not None:
            yield path, f"{scheme}:// benchmarks are {why}", "see `nel list` for those that are"
        return
    if name.endswith(".py"):
        file = name
    else:
        file = name.rpartition(":")[0]
    if file.endswith(".py"):
        yield from _raised(path, find_file, file, hint="")
    elif name.lower().replace("_", "-") in _PLANNED:
        yield path, f"benchmark {name!r} is {NOT_YET}", "see `nel list` for those that are"
    elif not {name.lower(), name.lower().replace("-", "_")} & set(list_environments()):
        yield path, f"unknown benchmark {name!r}", did_you_mean(name, list_environments())


def _unjudged(
    scoring: ScoringConfig, name: str, facts: EnvironmentFacts, path: Path
) -> Iterator[Found]:
    judged = scoring.primary is not None or any(metric.type in JUDGES for metric in scoring.metrics)
    if (
        scoring.include_defaults
        and not judged
        and lacks_judge(facts, allow_fallback=scoring.allow_fallback)
    ):
        yield path, f"{name}: {NEEDS_JUDGE}", judge_hint(facts)
