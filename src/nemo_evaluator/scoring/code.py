"""Model-written code against its tests, in a sandbox or not at all; the tests stay out of the code's reach: a judge
runs them there beside the program, and says how it ended."""

from __future__ import annotations
import __future__

import ast
import asyncio
import importlib.util
import marshal
import secrets
import zlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nemo_evaluator.core.errors import SandboxError, ScorerError, TamperError
from nemo_evaluator.sandbox import run_judge
from nemo_evaluator.scoring.code_extract import assemble, extract_code
from nemo_evaluator.scoring.code_tests import Measure, prepare
from nemo_evaluator.scoring.judging import values
from nemo_evaluator.scoring.types import SCORER_LOOP, Score, ScorerInput, found, versioned

if TYPE_CHECKING:
    from types import CodeType

    from nemo_evaluator.sandbox.base import ExecResult, Sandbox

_SHOWN: Final = 500
# The modules of the judge, in the order in which they import each other. Those that start the program:
_START_MODULES: Final = ("records", "values", "protocol", "main")
# Those that only the process of the program needs.
_PROGRAM_MODULES: Final = ("program",)
# Those that judge it: they are loaded while the program starts.
_JUDGE_MODULES: Final = (
    "counting",
    "proxies",
    "exceptions",
    "handing",
    "session",
    "controls",
    "names",
    "judge",
)
# Those that only some tests need.
_MORE_MODULES: Final = (
    "expecting",
    "pytest_standin",
    "marks",
    "fixtures",
    "collecting",
    "libraries",
)
# Those that run the tests without a program.
_WITHOUT_PROGRAM_MODULES: Final = ("unanswered",)
_FORMAT: Final = 2
_COMPRESSION: Final = 9
# Each part of stdin has its length before it: modules and program first, the tests when the program is on its own.
# Loading modules makes no garbage, so ``main`` switches the collection on when it has loaded them.
_BOOT: Final = """
import gc, marshal, posix, sys
gc.disable()
def read(size):
    data = b""
    while len(data) < size:
        part = posix.read(0, size - len(data))
        if not part: posix._exit(3)
        data += part
    return data
part = lambda: marshal.loads(read(int(read(10))))
new = type(sys)
package = sys.modules["nel_judge"] = new("nel_judge")
package.__path__ = []
magic = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
def load(modules):
    if modules["magic"] == magic:
        contents = marshal.loads(modules["code"])
    else:
        import zlib
        contents = marshal.loads(zlib.decompress(modules["source"]))
    for name, content in contents:
        module = sys.modules["nel_judge." + name] = new("nel_judge." + name)
        module.__package__ = "nel_judge"
        exec(content, module.__dict__)
    return module
load(part()).main(part(), part(), part, load)
"""
_NO_INTERPRETER: Final = 127
_NOT_STARTED: Final = 126
# The verdict of a judge on tests that can judge no program, and on a run of tests that could not be finished.
_UNJUDGEABLE: Final = "unjudgeable"
_UNJUDGED: Final = "unjudged"
# How often a judge is run whose sandbox ends under it.
_TRIES: Final = 2
# What a judge may take to start and to clear up, beyond the program's own time.
_GRACE: Final = 5.0


class _Judgement(NamedTuple):
    """What one judge says.

    Attributes:
        verdict: The verdict; see ``judge_program``. "unjudged" where the tests could not be finished.
        reason: Why it is not "passed".
        exit_code: The exit code of the judge.
        duration_ms: How long it ran, in milliseconds.
    """

    verdict: str
    reason: str
    exit_code: int
    duration_ms: float


def program_of(sample: ScorerInput) -> tuple[str, Measure, str]:
    """Return the program to run, the tests that judge it, and the code that was extracted from the response."""
    metadata = sample.metadata
    entry = str(metadata.get("_entry_point") or metadata.get("entry_point") or "solution")
    prompt = str(metadata.get("_prompt") or "")
    test_source = str(metadata.get("_test") or metadata.get("test") or "")
    code = extract_code(sample.response, entry)
    if code.strip():
        program = assemble(prompt, code, entry)
    else:
        program = ""
    return program, Measure(test_source, entry, prompt), code


@versioned("3", inline=False)
def code_sandbox(sample: ScorerInput, timeout: float = 30.0) -> Any:
    """Run the code of a response against its tests in the sample's sandbox.

    The metadata ``_prompt``, ``_test`` and ``_entry_point`` define the problem.

    Args:
        sample: The answer, its metadata and its sandbox.
        timeout: Seconds for the program.

    Returns:
        In a plain function, the score. In a coroutine, where nothing may block, an awaitable of the score.
    """
    scoring = code_sandbox_async(sample, sample.sandbox, timeout)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        scorer_loop = SCORER_LOOP.get(None)
        if scorer_loop is not None:
            return asyncio.run_coroutine_threadsafe(scoring, scorer_loop).result()
        return asyncio.run(scoring)
    return scoring


@versioned("3", inline=False)
async def code_sandbox_async(
    sample: ScorerInput, sandbox: Sandbox | None, timeout: float = 30.0
) -> Score:
    """Do the same as ``code_sandbox`` in a given sandbox.

    Raises:
        SandboxError: There is no sandbox, so nothing was measured.
    """
    program, tests, code = program_of(sample)
    if not code.strip():
        return found(None, False)
    return {
        "extracted": code[:_SHOWN],
        **await judge_program(program, tests, sandbox, timeout=timeout),
    }


async def judge_program(
    program: str, tests: Measure, sandbox: Sandbox | None, timeout: float = 30.0
) -> dict[str, Any]:
    """Run a program in a sandbox, with its tests beside it and out of its reach.

    Args:
        program: The source of the program.
        tests: The tests that judge it.
        sandbox: Where to run both.
        timeout: Seconds for the program.

    Returns:
        ``correct``, ``exit_code``, ``duration_ms`` and ``verdict``: passed, wrong, compile_error, timeout,
        out_of_memory or crash. ``stderr`` has the reason unless the program passed.

    Raises:
        SandboxError: There is no sandbox, it has no Python, or the judge does not work in it.
        TamperError: The program interfered with the judge.
        ScorerError: The tests cannot be run.
    """
    if sandbox is None:
        raise SandboxError(
            "running model-written code needs a sandbox",
            hint="give the benchmark a sandbox, e.g. `sandbox: {type: local}`",
        )
    prepared = prepare(Measure(_clean(tests.source), tests.entry, _clean(tests.stub)))
    judgement = await _judge_once(_clean(program), prepared, sandbox, timeout=timeout)
    verdict = judgement.verdict
    reason = judgement.reason
    if verdict == _UNJUDGED:
        await _check_judgeable(prepared, sandbox, timeout)
        verdict = "wrong"
        reason = f"the program keeps its tests from being run: {reason}"
    details = {"correct": verdict == "passed", "verdict": verdict, "exit_code": judgement.exit_code}
    details["duration_ms"] = round(judgement.duration_ms, 1)
    if verdict == "passed":
        return details
    return {**details, "stderr": reason[:_SHOWN]}


async def _check_judgeable(prepared: dict[str, Any], sandbox: Sandbox, timeout: float) -> None:
    """Run the tests without the program, in a process and folders that it never saw.

    Raises:
        ScorerError: The tests cannot be run without it either, so no program can be judged by them.
    """
    without_program = {**prepared, "without_program": True}
    try:
        await _judge_once("", without_program, sandbox, timeout=timeout)
    except TamperError:
        # The tests end the judge: they do more without the program than they did with it.
        return


async def _judge_once(
    program: str, prepared: dict[str, Any], sandbox: Sandbox, timeout: float
) -> _Judgement:
    """Start a judge for a program and prepared tests, and read its verdict."""
    secret_word = secrets.token_hex(16)
    judge_modules: tuple[str, ...] = _JUDGE_MODULES
    if prepared["collect"] or prepared["mentioned"]:
        judge_modules += _MORE_MODULES
    if prepared["without_program"]:
        judge_modules += _WITHOUT_PROGRAM_MODULES
    stdin = b"".join(
        [
            _modules(_START_MODULES),
            _part({"program": program, "timeout": timeout}),
            _modules(_PROGRAM_MODULES),
            _modules(judge_modules),
            _part({**prepared, "word": secret_word}),
        ]
    )
    command = ["python3", "-I", "-S", "-c", _BOOT]
    result = await _run_in_living_sandbox(sandbox, command, stdin, timeout=timeout + _GRACE)
    if (
        result.exit_code == _NO_INTERPRETER
        and not result.timed_out
        and secret_word not in result.stdout
    ):
        retried = await run_judge(
            sandbox, ["python", *command[1:]], stdin, timeout=timeout + _GRACE
        )
        if retried.exit_code == _NO_INTERPRETER:
            raise SandboxError("the sandbox has no Python", hint="choose an image with python3")
        result = retried
    verdict, reason = _verdict(result, secret_word)
    return _Judgement(verdict, reason, result.exit_code, duration_ms=result.duration_ms)


async def _run_in_living_sandbox(
    sandbox: Sandbox, command: list[str], stdin: bytes, timeout: float
) -> ExecResult:
    """Run a judge, again when its sandbox ends under it.

    Raises:
        TamperError: The sandbox ended each time, although a sandbox without the program keeps running.
        SandboxError: The sandbox does not work without the program either.
    """
    for _ in range(_TRIES):
        try:
            result = await run_judge(sandbox, command, stdin, timeout=timeout)
        except SandboxError as error:
            failure = error
            if error.final:
                raise
            continue
        if result.exit_code != _NOT_STARTED or result.stdout:
            return result
        failure = SandboxError("the judge could not be started")
    # Whose fault is it? The same sandbox, without the program.
    await run_judge(sandbox, ["python3", "-I", "-S", "-c", ""], b"", timeout=timeout)
    raise TamperError(f"the program ended its sandbox: {failure}")


@cache
def _modules(names: tuple[str, ...]) -> bytes:
    """Return the part of stdin with modules, as code for an interpreter of this version and as source for others.

    Compiling the source takes longer than judging, so the judge unpacks it only where it cannot use the code.
    """
    folder = files("nemo_evaluator.scoring") / "judging"
    sources = []
    codes = []
    for name in names:
        source = (folder / f"{name}.py").read_text(encoding="utf-8")
        sources.append((name, source))
        codes.append((name, _compiled(name, source)))
    modules = {
        "magic": importlib.util.MAGIC_NUMBER,
        "code": marshal.dumps(codes),
        "source": zlib.compress(marshal.dumps(sources, _FORMAT), _COMPRESSION),
    }
    return _part(modules)


def _compiled(name: str, source: str) -> CodeType:
    """Compile a module without what a judge does not need: docstrings, annotations, the future import."""
    tree = ast.parse(source)
    # The flag says the same, and spares each judge the import of that module.
    tree.body = [node for node in tree.body if not _is_future_import(node)]
    _drop_annotations(tree)
    code: CodeType = compile(
        tree,
        f"{name}.py",
        "exec",
        __future__.annotations.compiler_flag,
        dont_inherit=True,
        optimize=2,
    )
    return code


def _drop_annotations(tree: ast.Module) -> None:
    """Remove the annotations of parameters and results, which are a quarter of the compiled code."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None


def _is_future_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _part(content: dict[str, Any]) -> bytes:
    """Encode one part of stdin, with its length before it."""
    data = marshal.dumps(content, _FORMAT)
    return b"%010d" % len(data) + data


def _clean(text: str) -> str:
    """Replace characters that cannot be encoded as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _verdict(result: ExecResult, word: str) -> tuple[str, str]:
    """Read the verdict and its reason from the output of a judge.

    Only the judge knows ``word``, so only the judge can have written the line that begins with it.

    Raises:
        TamperError: The program ended its judge, or interfered with it.
        SandboxError: The judge could not work in the sandbox.
        ScorerError: The tests cannot be run.
    """
    line = next((line for line in result.stdout.splitlines() if line.startswith(word + " ")), None)
    if line is None:
        if result.timed_out:
            return "timeout", "the judge did not end in time"
        if result.out_of_memory:
            return "out_of_memory", ""
        text = result.stderr.strip()[-_SHOWN:]
        if "Traceback (most recent call last)" in text:
            raise SandboxError(f"the judge could not work in this sandbox: {text.splitlines()[-1]}")
        raise TamperError(f"the program ended its judge (exit code {result.exit_code})")
    try:
        verdict, reason = values.decode(bytes.fromhex(line.partition(" ")[2]), values.no_reference)
    except (ValueError, TypeError, values.Malformed):
        raise TamperError("the line with the verdict cannot be read") from None
    if verdict == "tamper":
        raise TamperError(reason)
    if verdict == _UNJUDGEABLE:
        raise ScorerError(f"the tests of this problem cannot be run: {reason}")
    if verdict == "crash" and result.out_of_memory:
        return "out_of_memory", reason
    return verdict, reason
