"""The canary of a config: a few problems of each benchmark in a folder of its own, and a verdict."""

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
# A few problems tell little of shares: what is rare is a remark, any row that failed is a reason to stop.
_LIMITS: Final = CheckLimits(
    truncated=0.25, unparsed=0.25, failed=0.0, refusals=1.0, reasoning=0.25
)
_TROUBLE: Final = re.compile(
    r"traceback|exception|\boom\b|out of memory|killed|unauthorized|rate.?limit|no space left|permission denied",
    re.I,
)
_LINE_CHARS: Final = 160
_LINES_OF_A_LOG: Final = 3
# How often a canary whose requests had to be retried is run again, each time at half the concurrency.
_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class CanaryProblem:
    """Why a canary failed: in which benchmark, what was found, what to do."""

    benchmark: str
    message: str
    fix: str


@dataclass(slots=True)
class CanaryReport:
    """What a canary found. It passes when there is no cause against it."""

    folder: str
    exit_code: int = EXIT_OK
    causes: list[CanaryProblem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    # What the whole run needs to be set to, as overrides: the concurrency at which nothing had to be retried.
    settings: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """PASS or FAIL."""
        return "PASS" if self.exit_code == EXIT_OK else "FAIL"


@dataclass(frozen=True, slots=True)
class _Pace:
    """What was measured of a benchmark, and what follows for concurrency and for the time of the whole run."""

    number: int
    key: str
    seconds: float
    used: int
    most: int
    retries: int
    answers: int

    def words(self, tuned: int | None) -> str:
        """For people. ``tuned`` is the concurrency that retries led to, if there were any."""
        measured = f"{self.key}: median {self.seconds:.2g} s per answer at concurrency {self.used}"
        if self.retries == 1:
            retried = "1 retry"
        else:
            retried = f"{self.retries or 'no'} retries"
        if tuned is not None:
            return f"{measured}, {retried}: start the whole run with max_concurrent: {tuned} (--gated does)"
        time = clock(self.answers * self.seconds / max(1, min(self.most, self.answers)))
        if self.used < self.most:
            untried = f" (more than {self.used} at once was not tried)"
        else:
            untried = ""
        told = f"max_concurrent {self.most} can stay{untried}; {self.answers:,} answers then take about {time}"
        return f"{measured}, {retried}: {told}"


def run_canary(request: RunRequest, problems: int = 10) -> CanaryReport:
    """Run a few problems of each benchmark and judge the rows. What the run itself prints goes to stderr.

    Raises ConfigError, as the whole run would. Nothing is exported, and the folder of the whole run is not touched.
    """
    use_env_file(
        Path(request.config_file).parent if request.config_file else Path(), request.env_file
    )
    try:
        loaded = load_request(request)
    except ConfigError as error:
        raise error.with_rest(find_problems) from None
    folder = Path(f"{Path(loaded.config.output.dir)}{SUFFIX}")
    plain = replace(
        request, fresh=True, resume=False, dry_run=False, background=False, submit=False, shard=None
    )
    override = (*request.override, *_overrides(loaded))
    asked = replace(plain, max_problems=problems, output_dir=str(folder), override=override)
    tuned: dict[int, int] = {}
    settings: list[str] = []
    for _ in range(_ROUNDS):
        with redirect_stdout(sys.stderr):
            code = start(replace(asked, override=(*asked.override, *settings)))
        report, paces = _report(folder, code, loaded)
        tried: dict[int, int] = {}
        for one in paces:
            if one.retries:
                tried[one.number] = min(tuned.get(one.number, one.most), problems)
        lower = {number: level // 2 for number, level in tried.items() if level > 1}
        if report.exit_code or not lower:
            break
        tuned |= lower
        settings = []
        for number, level in sorted(tuned.items()):
            settings.append(f"benchmarks.{number}.max_concurrent={level}")
        words = ", ".join(
            f"{loaded.config.benchmarks[number].key} at {level}" for number, level in lower.items()
        )
        print(
            f"Requests had to be retried; the canary runs again with half the concurrency: {words}",
            file=sys.stderr,
        )
    report.settings, report.advice = settings, [one.words(tuned.get(one.number)) for one in paces]
    return report


def _report(folder: Path, code: int, loaded: LoadedConfig) -> tuple[CanaryReport, list[_Pace]]:
    """What a canary's folder says, and how fast each benchmark went."""
    report = CanaryReport(str(folder))
    if code == EXIT_INTERRUPTED:
        report.exit_code = code
        return report, []
    if not folder.is_dir():
        # A run behind ssh leaves its rows there.
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
        (check.benchmark, one)
        for check in checks
        for one in check.findings
        if one.level is Level.NOTE
    ]
    report.remarks = [f"{name}: {one.message}" for name, one in notes if one.check != "failures"]
    report.remarks += _log_lines(folder)
    report.exit_code = EXIT_INVALID if report.causes or code else EXIT_OK
    if code and not report.causes:
        report.causes.append(
            CanaryProblem("the run", f"ended with exit code {code}", f"see {folder}")
        )
    paces = (_pace(load_bundle(Path(check.path)), loaded) for check in checks if check.rows)
    return report, [one for one in paces if one is not None]


def run_gated(request: RunRequest, problems: int = 10) -> int:
    """Dry run, canary, whole run: the first that fails is the last. Returns its exit code."""
    print("Gate 1 of 2: dry run", file=sys.stderr, flush=True)
    with redirect_stdout(sys.stderr):
        code = start(replace(request, dry_run=True))
    if code:
        print("The dry run failed; nothing was run.", file=sys.stderr)
        return code
    print("Gate 2 of 2: canary", file=sys.stderr, flush=True)
    report = run_canary(request, problems)
    print(canary_text(report), file=sys.stderr, flush=True)
    if report.exit_code:
        print("The canary failed; the whole run was not started.", file=sys.stderr)
        return report.exit_code
    return start(replace(request, override=(*request.override, *report.settings)))


def canary_text(report: CanaryReport) -> str:
    """The report for people."""
    return render("canary.txt.j2", verdict=report.verdict, **asdict(report))


def _overrides(loaded: LoadedConfig) -> Iterator[str]:
    """One repeat of a few problems, on one server, with nothing sent anywhere."""
    yield "output.export=[]"
    yield "output.export_config={}"
    yield "output.report=[]"
    for number, bench in enumerate(loaded.config.benchmarks):
        yield f"benchmarks.{number}.repeats=1"
        if bench.stop_when is not None:
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
    # The causes of failed rows are notes of the check: they say more than the share of failed rows.
    failed = [one for one in check.findings if one.check == "failures"]
    fixes: dict[str, str] = read_data("fixes.yaml")
    for one in check.findings:
        if one.level is Level.NOTE:
            continue
        words = [one.message, *(note.message for note in failed if one.check == "coverage")]
        text = " ".join([one.message, *(note.message for note in failed)]).lower()
        if re.search(r"\b40[13]\b|unauthorized", text):
            auth = "auth"
        else:
            auth = ""
        causes: list[str] = []
        for note in failed:
            if one.check in ("coverage", "finished"):
                causes.append(note.message.partition(":")[0])
        asked = [*causes, one.check, auth, one.failure_class or ""]
        fix = next(
            (fixes[word] for word in asked if word in fixes), "see the rows: nel show RUN --failed"
        )
        yield CanaryProblem(check.benchmark, "; ".join(words), fix)


def _log_lines(folder: Path) -> Iterator[str]:
    """Log lines that show trouble, from servers, containers and the run itself."""
    for log in files_under(folder, "*.log"):
        if PREVIOUS in log.relative_to(folder).parts:
            continue
        with log.open(encoding="utf-8", errors="replace") as file:
            found = (line for line in file if _TROUBLE.search(line))
            for _, line in zip(range(_LINES_OF_A_LOG), found, strict=False):
                yield f"{log.name}: {one_line(line, _LINE_CHARS)}"


def _pace(bundle: Bundle, loaded: LoadedConfig) -> _Pace | None:
    benches = loaded.config.benchmarks
    number = next(
        (at for at, one in enumerate(benches) if one.key == bundle.path.parent.name), None
    )
    runtime = bundle.runtime
    scores = as_dict(bundle.benchmark.get("scores"))
    if number is None or not runtime.p50_ms or not runtime.steps_per_second:
        return None
    bench = benches[number]
    service = loaded.config.model_services().get(bench.solver.model_service or "")
    limits = [
        bench.max_concurrent,
        *(getattr(service, name, None) for name in ("max_concurrent", "slots")),
    ]
    return _Pace(
        number,
        bench.key,
        runtime.p50_ms / 1000,
        used=max(1, round(runtime.steps_per_second * runtime.p50_ms / 1000)),
        most=min(filter(None, limits)),
        retries=as_count(as_dict(scores.get("runtime")).get("total_retries")) or 0,
        answers=min(bundle.dataset_size or 0, bench.max_problems or sys.maxsize) * bench.repeats,
    )
