"""The canary of a config: a few problems of each benchmark, run in a separate folder, and a verdict."""

import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final

from nemo_evaluator.assistant.recipes import read_data, render
from nemo_evaluator.config import LoadedConfig
from nemo_evaluator.config.env_file import use_env_file
from nemo_evaluator.core.errors import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_OK, ConfigError
from nemo_evaluator.core.files import files_under
from nemo_evaluator.core.json_coerce import as_count, as_dict
from nemo_evaluator.core.terminal import one_line
from nemo_evaluator.decisions.check.check_run import check_path
from nemo_evaluator.decisions.check.checked_run import CheckLimits
from nemo_evaluator.decisions.check.findings import Finding, Level, RunCheck
from nemo_evaluator.engine.progress import clock
from nemo_evaluator.executors.request import RunRequest
from nemo_evaluator.launch.job import load_request
from nemo_evaluator.launch.start import start
from nemo_evaluator.preflight import find_problems
from nemo_evaluator.runs.bundle import Bundle, load_bundle
from nemo_evaluator.store.layout import PREVIOUS

SUFFIX: Final = "-canary"
# A few problems say little about shares, so most limits are lax; but any failed row fails the canary.
_LIMITS: Final = CheckLimits(
    truncated=0.25, unparsed=0.25, failed=0.0, refusals=1.0, reasoning=0.25
)
_TROUBLE: Final = re.compile(
    r"traceback|exception|\boom\b|out of memory|killed|unauthorized|rate.?limit|no space left|permission denied",
    re.I,
)
_LINE_CHARS: Final = 160
_LINES_OF_A_LOG: Final = 3
# Maximum number of canary runs; after retries, the next run has half the concurrency.
_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class CanaryProblem:
    """A reason why a canary failed: the benchmark, what is wrong, and how to fix it."""

    benchmark: str
    message: str
    fix: str


@dataclass(slots=True)
class CanaryReport:
    """The result of a canary; it passes if the exit code is 0."""

    folder: str
    exit_code: int = EXIT_OK
    causes: list[CanaryProblem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    # Overrides for the whole run: the concurrency at which no request had to be retried.
    settings: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """``PASS`` or ``FAIL``."""
        return "PASS" if self.exit_code == EXIT_OK else "FAIL"


@dataclass(frozen=True, slots=True)
class _Pace:
    """The measured speed of one benchmark.

    Attributes:
        number: Index of the benchmark in the config.
        key: Key of the benchmark.
        seconds: Median seconds per answer.
        used: Concurrency that the canary reached.
        most: Maximum concurrency of the config.
        retries: Number of requests that were retried.
        answers: Number of answers in the whole run.
    """

    number: int
    key: str
    seconds: float
    used: int
    most: int
    retries: int
    answers: int

    def words(self, tuned: int | None) -> str:
        """Describe the speed, and which concurrency to use for the whole run.

        Args:
            tuned: The lower concurrency found after retries; None if the config's concurrency needs no change.
        """
        retries = "1 retry" if self.retries == 1 else f"{self.retries or 'no'} retries"
        speed = f"median {self.seconds:.2g} s per answer at concurrency {self.used}"
        measurement = f"{self.key}: {speed}, {retries}"
        if tuned is not None:
            return f"{measurement}: start the whole run with max_concurrent: {tuned} (--gated does)"
        concurrency = max(1, min(self.most, self.answers))
        time = clock(self.answers * self.seconds / concurrency)
        advice = f"max_concurrent {self.most} can stay"
        if self.used < self.most:
            advice += f" (more than {self.used} at once was not tried)"
        return f"{measurement}: {advice}; {self.answers:,} answers then take about {time}"


def run_canary(request: RunRequest, problems: int = 10) -> CanaryReport:
    """Run a few problems of each benchmark and check the rows.

    The output of the run itself goes to stderr. Nothing is exported, and the folder of the whole run is not touched.
    After retries, the canary runs again with half the concurrency; the report's settings are those of its last run.

    Args:
        request: The request for the whole run.
        problems: Number of problems per benchmark.

    Raises:
        ConfigError: If the config has problems, as for the whole run.
    """
    config_folder = Path(request.config_file).parent if request.config_file else Path()
    use_env_file(config_folder, request.env_file)
    try:
        loaded = load_request(request)
    except ConfigError as error:
        raise error.with_rest(find_problems) from None
    folder = Path(f"{Path(loaded.config.output.dir)}{SUFFIX}")
    canary_request = replace(
        request,
        fresh=True,
        resume=False,
        dry_run=False,
        background=False,
        submit=False,
        shard=None,
        max_problems=problems,
        output_dir=str(folder),
        override=(*request.override, *_overrides(loaded)),
    )
    tuned_levels: dict[int, int] = {}
    rounds_left = _ROUNDS
    while True:
        settings = _concurrency_settings(tuned_levels)
        round_request = replace(canary_request, override=(*canary_request.override, *settings))
        with redirect_stdout(sys.stderr):
            exit_code = start(round_request)
        report, paces = _report(folder, exit_code, loaded)
        rounds_left -= 1
        lowered_levels = _lowered_levels(paces, tuned_levels, problems)
        if report.exit_code or not lowered_levels or not rounds_left:
            break
        tuned_levels |= lowered_levels
        _print_lowered(lowered_levels, loaded)
    report.settings = settings
    for pace in paces:
        report.advice.append(pace.words(tuned_levels.get(pace.number)))
        if pace.retries and pace.number in tuned_levels:
            level = tuned_levels[pace.number]
            report.remarks.append(
                f"{pace.key}: requests still had to be retried at max_concurrent {level}, the lowest that was tried"
            )
    return report


def _concurrency_settings(levels: dict[int, int]) -> list[str]:
    """Return overrides that limit the concurrency of benchmarks.

    Args:
        levels: The concurrency by index of the benchmark.
    """
    settings: list[str] = []
    for number, level in sorted(levels.items()):
        settings.append(f"benchmarks.{number}.max_concurrent={level}")
    return settings


def _lowered_levels(
    paces: list[_Pace], tuned_levels: dict[int, int], problems: int
) -> dict[int, int]:
    """Return half the concurrency for each benchmark whose requests were retried, by its index.

    Args:
        paces: The measured speeds.
        tuned_levels: The concurrency of benchmarks for which it was lowered before.
        problems: Number of problems per benchmark, which limits the concurrency.
    """
    lowered_levels: dict[int, int] = {}
    for pace in paces:
        level = min(tuned_levels.get(pace.number, pace.most), problems)
        if pace.retries and level > 1:
            lowered_levels[pace.number] = level // 2
    return lowered_levels


def _print_lowered(levels: dict[int, int], loaded: LoadedConfig) -> None:
    """Print that the canary runs again, and with which concurrency."""
    parts = [
        f"{loaded.config.benchmarks[number].key} at {level}" for number, level in levels.items()
    ]
    message = "Requests had to be retried; the canary runs again with half the concurrency"
    print(f"{message}: {', '.join(parts)}", file=sys.stderr)


def _report(folder: Path, code: int, loaded: LoadedConfig) -> tuple[CanaryReport, list[_Pace]]:
    """Check the canary's folder; return the report and the speed of each benchmark."""
    report = CanaryReport(str(folder))
    if code == EXIT_INTERRUPTED:
        report.exit_code = code
        return report, []
    if not folder.is_dir():
        # The rows of a run over ssh stay on the cluster.
        report.exit_code = EXIT_INVALID if code else EXIT_OK
        report.remarks.append(
            f"the rows are on the cluster; `nel check {folder}` there judges them"
        )
        return report, []
    paces: list[_Pace] = []
    for check in check_path(folder, _LIMITS):
        report.causes.extend(_causes(check))
        for finding in check.findings:
            # The notes on failures are part of the causes.
            if finding.level is Level.NOTE and finding.check != "failures":
                report.remarks.append(f"{check.benchmark}: {finding.message}")
        pace = _pace(load_bundle(Path(check.path)), loaded) if check.rows else None
        if pace is not None:
            paces.append(pace)
    report.remarks.extend(_log_lines(folder))
    if code and not report.causes:
        report.causes.append(
            CanaryProblem("the run", f"ended with exit code {code}", f"see {folder}")
        )
    if report.causes:
        report.exit_code = EXIT_INVALID
    return report, paces


def run_gated(request: RunRequest, problems: int = 10) -> int:
    """Do a dry run and a canary, then start the whole run if both pass.

    Args:
        request: The request for the whole run.
        problems: Number of problems per benchmark in the canary.

    Returns:
        The exit code of the first step that failed, else of the run.
    """
    print("Gate 1 of 2: dry run", file=sys.stderr, flush=True)
    with redirect_stdout(sys.stderr):
        exit_code = start(replace(request, dry_run=True))
    if exit_code:
        print("The dry run failed; nothing was run.", file=sys.stderr)
        return exit_code
    print("Gate 2 of 2: canary", file=sys.stderr, flush=True)
    report = run_canary(request, problems)
    print(canary_text(report), file=sys.stderr, flush=True)
    if report.exit_code:
        print("The canary failed; the whole run was not started.", file=sys.stderr)
        return report.exit_code
    return start(replace(request, override=(*request.override, *report.settings)))


def canary_text(report: CanaryReport) -> str:
    """Render a canary's report for people."""
    return render("canary.txt.j2", verdict=report.verdict, **asdict(report))


def _overrides(loaded: LoadedConfig) -> Iterator[str]:
    """Yield overrides for a canary: one repeat, one server instance, no exports, reports or shards."""
    yield "output.export=[]"
    yield "output.export_config={}"
    yield "output.report=[]"
    for number, benchmark in enumerate(loaded.config.benchmarks):
        yield f"benchmarks.{number}.repeats=1"
        if benchmark.stop_when is not None:
            yield f"benchmarks.{number}.stop_when=null"
    for name, service in loaded.raw.get("services", {}).items():
        for key in ("replicas", "num_instances"):
            if key in service:
                yield f"services.{name}.{key}=1"
    cluster = loaded.config.cluster
    if cluster.type == "slurm" and getattr(cluster, "shards", None) is not None:
        yield "cluster.shards=null"


def _causes(check: RunCheck) -> Iterator[CanaryProblem]:
    """Yield a problem, with its fix, for every finding that is not merely a note."""
    # The causes of failed rows are only notes, but say more than the share of failed rows.
    failure_notes = [finding.message for finding in check.findings if finding.check == "failures"]
    for finding in check.findings:
        if finding.level is Level.NOTE:
            continue
        messages = [finding.message]
        if finding.check == "coverage":
            messages += failure_notes
        yield CanaryProblem(check.benchmark, "; ".join(messages), _fix_of(finding, failure_notes))


def _fix_of(finding: Finding, failure_notes: list[str]) -> str:
    """Return the fix of the first cause of a finding that has one.

    Args:
        finding: The finding.
        failure_notes: The notes on failed rows, each with its cause before a colon.
    """
    fix_names: list[str] = []
    if finding.check in ("coverage", "finished"):
        for note in failure_notes:
            cause, _, _ = note.partition(":")
            fix_names.append(cause)
    fix_names.append(finding.check)
    searched_text = " ".join([finding.message, *failure_notes]).lower()
    if re.search(r"\b40[13]\b|unauthorized", searched_text):
        fix_names.append("auth")
    if finding.failure_class:
        fix_names.append(finding.failure_class)
    fixes: dict[str, str] = read_data("fixes.yaml")
    for name in fix_names:
        if name in fixes:
            return fixes[name]
    return "see the rows: nel show RUN --failed"


def _log_lines(folder: Path) -> Iterator[str]:
    """Yield log lines that show trouble, from servers, containers and the run itself."""
    for log_file in files_under(folder, "*.log"):
        if log_file.is_symlink() or PREVIOUS in log_file.relative_to(folder).parts:
            continue
        with log_file.open(encoding="utf-8", errors="replace") as file:
            trouble_lines = filter(_TROUBLE.search, file)
            for line in islice(trouble_lines, _LINES_OF_A_LOG):
                yield f"{log_file.name}: {one_line(line, _LINE_CHARS)}"


def _pace(bundle: Bundle, loaded: LoadedConfig) -> _Pace | None:
    """Measure the speed of one benchmark; None if its bundle has no timing or is not from this config."""
    benchmarks = loaded.config.benchmarks
    keys = [benchmark.key for benchmark in benchmarks]
    key = bundle.path.parent.name
    runtime = bundle.runtime
    if key not in keys or not runtime.p50_ms or not runtime.steps_per_second:
        return None
    number = keys.index(key)
    benchmark = benchmarks[number]
    service = loaded.config.model_services().get(benchmark.solver.model_service or "")
    limits = [benchmark.max_concurrent]
    for setting in ("max_concurrent", "slots"):
        limit = getattr(service, setting, None)
        if limit:
            limits.append(limit)
    scores = as_dict(bundle.benchmark.get("scores"))
    retries = as_count(as_dict(scores.get("runtime")).get("total_retries")) or 0
    problems = bundle.dataset_size or 0
    if benchmark.max_problems:
        problems = min(problems, benchmark.max_problems)
    seconds = runtime.p50_ms / 1000
    return _Pace(
        number=number,
        key=key,
        seconds=seconds,
        used=max(1, round(runtime.steps_per_second * seconds)),
        most=min(limits),
        retries=retries,
        answers=problems * benchmark.repeats,
    )
