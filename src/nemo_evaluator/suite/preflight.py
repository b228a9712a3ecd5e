"""Everything that would keep a config from running, found at once and before anything is started or written.

``nel config check``, ``nel eval run`` and ``--dry-run`` show the same list.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

from nemo_evaluator.config import BenchmarkConfig, EvalConfig, LoadedConfig, check_runtime
from nemo_evaluator.config.load import BrokenConfigError
from nemo_evaluator.core.errors import ConfigError, NelError, Problem, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.engine.only import chosen_problems
from nemo_evaluator.engine.plan import Shard
from nemo_evaluator.engine.template import InstructionTemplate, load_template
from nemo_evaluator.engine.verify import JUDGES, NEEDS_JUDGE, judge_hint, lacks_judge
from nemo_evaluator.environments.registry import as_uri, get_environment
from nemo_evaluator.models import endpoint_of
from nemo_evaluator.models.cost import price_of
from nemo_evaluator.solvers.base import SANDBOX
from nemo_evaluator.suite.export import check_exports
from nemo_evaluator.suite.names import check_names
from nemo_evaluator.suite.run import use_datasets
from nemo_evaluator.suite.site_checks import check_site, disk_cautions, ping, registry_cautions
from nemo_evaluator.suite.stop_rule import check_baselines

Path = tuple[str | int, ...]
Found = tuple[Path, str, str]
_PRICE = "add price: {input: ..., output: ...} (USD per million tokens) to the service, or limit tokens instead of usd"


async def preflight(loaded: LoadedConfig, shard: Shard | None = None, *, pinging: bool = False) -> None:
    """Raise ConfigError with every problem: kinds, names, exports, budgets, and what opening the benchmarks shows.

    With ``pinging`` every endpoint is asked one short question.

    Datasets are opened and one problem of each benchmark is made; sandboxes are tried. On a cluster that is done by
    the run itself, where it has them.
    """
    config, document = loaded.config, loaded.document
    problems = check_file(loaded)
    unknown = {problem.path for problem in problems}
    found = [*_raised(lambda: check_exports(config.output), ("output", "export")), *_prices(config)]
    found += _raised(lambda: check_baselines(config, shard), ("benchmarks",))
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
    problems += [document.problem(*one) for one in dict.fromkeys(found)]
    if problems:
        raise ConfigError(problems, source=str(loaded.source) if loaded.source else None)


def whole_error(error: ConfigError, look: Callable[[LoadedConfig], Iterable[Problem]] | None = None) -> ConfigError:
    """A config's error with what the rest of the config would be refused for, so that all of it is told at once."""
    return error.with_rest(look or _refused) if isinstance(error, BrokenConfigError) else error


def _refused(loaded: LoadedConfig) -> list[Problem]:
    try:
        asyncio.run(preflight(loaded))
    except ConfigError as error:
        return error.problems
    return []


def check_file(loaded: LoadedConfig) -> list[Problem]:
    """What is wrong with the file itself: kinds that are not supported yet, and names that nothing answers to."""
    problems: list[Problem] = []
    for look in (check_runtime, check_names):
        try:
            look(loaded.config, document=loaded.document)
        except ConfigError as error:
            problems += error.problems
    return problems


async def _opened(bench: BenchmarkConfig, path: Path) -> AsyncIterator[Found]:
    """What shows when a benchmark is opened: its file, its parameters, its dataset, its columns, what it needs."""
    if "://" in as_uri(bench.name):
        # Some are reached through services that are not up yet.
        return
    try:
        with boundary(Cause.SEED):
            environment = get_environment(bench.name, num_fewshot=bench.fewshot, params=bench.params)
    except NelError as error:
        yield _said(error, (*path, "name"))
        return
    try:
        facts = environment.facts()
        judged = bench.scoring.primary is not None or any(one.type in JUDGES for one in bench.scoring.metrics)
        if (
            bench.scoring.include_defaults
            and not judged
            and lacks_judge(facts, allow_fallback=bench.scoring.allow_fallback)
        ):
            yield (*path, "scoring"), f"{bench.name}: {NEEDS_JUDGE}", judge_hint(facts)
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
                    if text := load_template(bench.instruction_template):
                        InstructionTemplate(text).apply(problem)
        except NelError as error:
            yield _said(error, (*path, "only" if bench.only and "hash" in error.message else place))
    finally:
        await environment.close()


async def _sandbox(bench: BenchmarkConfig, path: Path) -> AsyncIterator[Found]:
    wanted = None if bench.sandbox.type == "none" else bench.sandbox
    try:
        # By name: most configs need no sandbox, and starting must stay quick.
        manager = load_object("nemo_evaluator.sandbox.manager:SandboxManager")(wanted, "preflight")
    except NelError as error:
        yield _said(error, path)
        return
    try:
        await manager.check()
    except NelError as error:
        yield _said(error, path)
    finally:
        await manager.close()


def _prices(config: EvalConfig) -> Iterator[Found]:
    """Budgets in money over services whose price nobody knows: a limit that cannot be watched is no limit."""
    everywhere = config.budget is not None and config.budget.usd is not None
    for number, bench in enumerate(config.benchmarks):
        blocks = {"budget": bench.budget, "step_limits": bench.step_limits}
        own = next((name for name, block in blocks.items() if block is not None and block.usd is not None), None)
        if own is None and not everywhere:
            continue
        path: Path = ("benchmarks", number, own, "usd") if own else ("budget", "usd")
        judges = [getattr(metric, "service", None) for metric in bench.scoring.metrics]
        for name in dict.fromkeys([bench.solver.model_service, *judges]):
            if name is None or name not in config.model_services():
                continue
            try:
                known = price_of(endpoint_of(name, config.services[name], url=config.base_url(name))) is not None
            except NelError as error:
                yield _said(error, ("services", name))
                continue
            if not known:
                yield path, f"a budget in USD needs the price of service {name!r}", _PRICE


def _raised(look: Callable[[], None], path: Path) -> list[Found]:
    try:
        look()
    except NelError as error:
        return [_said(error, path)]
    return []


def _said(error: NelError, path: Path) -> Found:
    if isinstance(error.__cause__, NelError) and not error.hint:
        error = error.__cause__
    return path, error.message, error.hint or "see the message"
