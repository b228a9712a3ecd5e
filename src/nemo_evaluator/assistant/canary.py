"""The canary of a config: a few problems of each benchmark, run in a separate folder, and a verdict."""

import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from nemo_evaluator.assistant.recipes import read_data, render
from nemo_evaluator.config import LoadedConfig
from nemo_evaluator.config.env_file import use_env_file
from nemo_evaluator.core.errors import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_OK, ConfigError
from nemo_evaluator.core.files import files_under
from nemo_evaluator.core.json_coerce import as_count, as_dict
from nemo_evaluator.core.terminal import one_line
from nemo_evaluator.decisions.check.check_run import CheckLimits, check_path
from nemo_evaluator.decisions.check.findings import Level, RunCheck
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
        measurement = (
            f"{self.key}: median {self.seconds:.2g} s per answer at concurrency {self.used}"
        )
        if self.retries == 1:
            retries_text = "1 retry"
        else:
            retries_text = f"{self.retries or 'no'} retries"
        if tuned is not None:
            return f"{measurement}, {retries_text}: start the whole run with max_concurrent: {tuned} (--gated does)"
        time = clock(self.answers * self.seconds / max(1, min(self.most, self.answers)))
        if self.used < self.most:
            untested = f" (more than {self.used} at once was not tried)"
        else:
            untested = ""
        advice = f"max_concurrent {self.most} can stay{untested}; {self.answers:,} answers then take about {time}"
        return f"{measurement}, {retries_text}: {advice}"


def run_canary(request: RunRequest, problems: int = 10) -> CanaryReport:
    """Run a few problems of each benchmark and check the rows.

    The output of the run itself goes to stderr. Nothing is exported, and the folder of the whole run is not touched.

    Args:
        request: The request for the whole run.
        problems: Number of problems per benchmark.

    Raises:
        ConfigError: If the config has problems, as for the whole run.
    """
    use_env_file(
        Path(request.config_file).parent if request.config_file else Path(), request.env_file
    )
    try:
        loaded = load_request(request)
    except ConfigError as error:
        raise error.with_rest(find_problems) from None
    folder = Path(f"{Path(loaded.config.output.dir)}{SUFFIX}")
    foreground_request = replace(
        request, fresh=True, resume=False, dry_run=False, background=False, submit=False, shard=None
    )
    override = (*request.override, *_overrides(loaded))
    canary_request = replace(
        foreground_request, max_problems=problems, output_dir=str(folder), override=override
    )
    tuned_levels: dict[int, int] = {}
    settings: list[str] = []
    for _ in range(_ROUNDS):
        with redirect_stdout(sys.stderr):
            exit_code = start(
                replace(canary_request, override=(*canary_request.override, *settings))
            )
        report, paces = _report(folder, exit_code, loaded)
        retried_levels: dict[int, int] = {}
        for pace in paces:
            if pace.retries:
                retried_levels[pace.number] = min(
                    tuned_levels.get(pace.number, pace.most), problems
                )
        lowered_levels = {
            number: level // 2 for number, level in retried_levels.items() if level > 1
        }
        if report.exit_code or not lowered_levels:
            break
        tuned_levels |= lowered_levels
        settings = []
        for number, level in sorted(tuned_levels.items()):
            settings.append(f"benchmarks.{number}.max_concurrent={level}")
        levels_text = ", ".join(
            f"{loaded.config.benchmarks[number].key} at {level}"
            for number, level in lowered_levels.items()
        )
        print(
            f"Requests had to be retried; the canary runs again with half the concurrency: {levels_text}",
            file=sys.stderr,
        )
    report.settings, report.advice = (
        settings,
        [pace.words(tuned_levels.get(pace.number)) for pace in paces],
    )
    return report


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
    checks = check_path(folder, _LIMITS)
    causes: list[CanaryProblem] = []
    for check in checks:
        for cause in _causes(check):
            causes.append(cause)
    report.causes = causes
    notes = [
        (check.benchmark, finding)
        for check in checks
        for finding in check.findings
        if finding.level is Level.NOTE
    ]
    report.remarks = [
        f"{name}: {finding.message}" for name, finding in notes if finding.check != "failures"
    ]
    report.remarks += _log_lines(folder)
    report.exit_code = EXIT_INVALID if report.causes or code else EXIT_OK
    if code and not report.causes:
        report.causes.append(
            CanaryProblem("the run", f"ended with exit code {code}", f"see {folder}")
        )
    paces = (_pace(load_bundle(Path(check.path)), loaded) for check in checks if check.rows)
    return report, [pace for pace in paces if pace is not None]


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
        yield from (
            f"services.{name}.{key}=1" for key in ("replicas", "num_instances") if key in service
        )
    if (
        getattr(loaded.config.cluster, "shards", None) is not None
        and loaded.config.cluster.type == "slurm"
    ):
        yield "cluster.shards=null"


def _causes(check: RunCheck) -> Iterator[CanaryProblem]:
    """Yield a problem, with its fix, for every finding that is not merely a note."""
    # The causes of failed rows are only notes, but say more than the share of failed rows.
    failure_notes = [finding for finding in check.findings if finding.check == "failures"]
    fixes: dict[str, str] = read_data("fixes.yaml")
    for finding in check.findings:
        if finding.level is Level.NOTE:
            continue
        messages = [
            finding.message,
            *(note.message for note in failure_notes if finding.check == "coverage"),
        ]
        searched_text = " ".join(
            [finding.message, *(note.message for note in failure_notes)]
        ).lower()
        if re.search(r"\b40[13]\b|unauthorized", searched_text):
            auth_cause = "auth"
        else:
            auth_cause = ""
        causes: list[str] = []
        for note in failure_notes:
            if finding.check in ("coverage", "finished"):
                causes.append(note.message.partition(":")[0])
        fix_names = [*causes, finding.check, auth_cause, finding.failure_class or ""]
        fix = next(
            (fixes[fix_name] for fix_name in fix_names if fix_name in fixes),
            "see the rows: nel show RUN --failed",
        )
        yield CanaryProblem(check.benchmark, "; ".join(messages), fix)


def _log_lines(folder: Path) -> Iterator[str]:
    """Yield log lines that show trouble, from servers, containers and the run itself."""
    for log_file in files_under(folder, "*.log"):
        if PREVIOUS in log_file.relative_to(folder).parts:
            continue
        with log_file.open(encoding="utf-8", errors="replace") as file:
            trouble_lines = (line for line in file if _TROUBLE.search(line))
            for _, line in zip(range(_LINES_OF_A_LOG), trouble_lines, strict=False):
                yield f"{log_file.name}: {one_line(line, _LINE_CHARS)}"


def _pace(bundle: Bundle, loaded: LoadedConfig) -> _Pace | None:
    """Measure the speed of one benchmark; None if its bundle has no timing or is not from this config."""
    benchmarks = loaded.config.benchmarks
    index = next(
        (
            position
            for position, benchmark in enumerate(benchmarks)
            if benchmark.key == bundle.path.parent.name
        ),
        None,
    )
    runtime = bundle.runtime
    scores = as_dict(bundle.benchmark.get("scores"))
    if index is None or not runtime.p50_ms or not runtime.steps_per_second:
        return None
    benchmark = benchmarks[index]
    service = loaded.config.model_services().get(benchmark.solver.model_service or "")
    limits = [
        benchmark.max_concurrent,
        *(getattr(service, setting, None) for setting in ("max_concurrent", "slots")),
    ]
    return _Pace(
        index,
        benchmark.key,
        runtime.p50_ms / 1000,
        used=max(1, round(runtime.steps_per_second * runtime.p50_ms / 1000)),
        most=min(filter(None, limits)),
        retries=as_count(as_dict(scores.get("runtime")).get("total_retries")) or 0,
        answers=min(bundle.dataset_size or 0, benchmark.max_problems or sys.maxsize)
        * benchmark.repeats,
    )
