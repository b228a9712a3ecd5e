"""Model-written code against its tests, in a sandbox or not at all; the tests stay out of the code's reach: a judge
runs them there beside the program, and says how it ended."""

from __future__ import annotations
import __future__

import ast
import asyncio
import importlib.util
import marshal
import re
import secrets
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.core.errors import SandboxError, ScorerError, TamperError
from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.sandbox import run_judge
from nemo_evaluator.scoring._text import strip_reasoning
from nemo_evaluator.scoring.code_tests import Measure, prepare
from nemo_evaluator.scoring.judging import values
from nemo_evaluator.scoring.types import SCORER_LOOP, Score, ScorerInput, found, versioned

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.base import ExecResult, Sandbox

_FENCE: Final = "```"
_LANGUAGE: Final = lazy_pattern(r"^[\w+-]*")
_PYTHON: Final = ("", "python", "py", "python3")
_SHOWN: Final = 500
_MODULES: Final = (
    *(
        "records",
        "values",
        "program",
        "counting",
        "proxies",
        "exceptions",
        "handing",
        "session",
        "names",
        "judge",
    ),
    "main",
)
# Only for tests that need them.
_MORE_MODULES: Final = (
    "expecting",
    "pytest_standin",
    "marks",
    "fixtures",
    "collecting",
    "libraries",
)
_FORMAT: Final = 2
# Each part of stdin has its length before it: modules and program first, the tests when the program is on its own.
_BOOT: Final = """
import marshal, posix, sys
def read(size):
    data = b""
    while len(data) < size:
        part = posix.read(0, size - len(data))
        if not part: posix._exit(3)
        data += part
    return data
part = lambda: marshal.loads(read(int(read(10))))
pack = part()
new = type(sys)
package = sys.modules["nel_judge"] = new("nel_judge")
package.__path__ = []
same = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER == pack["magic"]
def load(modules):
    for name, source, code in modules:
        module = sys.modules["nel_judge." + name] = new("nel_judge." + name)
        module.__package__ = "nel_judge"
        exec(marshal.loads(code) if same else compile(source, name + ".py", "exec"), module.__dict__)
    return module
load(pack["modules"]).main(part(), part, load)
"""
_NO_INTERPRETER: Final = 127
_NOT_STARTED: Final = 126
# How often a judge is run whose sandbox ends under it.
_TRIES: Final = 2
# What a judge may take to start and to clear up, beyond the program's own time.
_GRACE: Final = 5.0


def extract_code(response: str, entry_point: str | None = None) -> str:
    """The last fenced block of a response that defines ``entry_point``, else the last block, else all of it."""
    text = strip_reasoning(response)
    blocks = [body for language, body in _fenced(text) if language.lower() in _PYTHON]
    if not blocks:
        return text.strip("\n")
    if entry_point:
        return next((body for body in reversed(blocks) if _defines(body, entry_point)), blocks[-1])
    return blocks[-1]


def _fenced(text: str) -> list[tuple[str, str]]:
    """(language, body) of every fenced block; one that was cut off ends with the text. Each line is looked at once."""
    blocks: list[tuple[str, str]] = []
    at = text.find(_FENCE)
    while at >= 0:
        begin = text.find("\n", at) + 1
        if not begin:
            break
        word = text[at:begin].lstrip("`").strip()
        end, after = _closing(text, begin)
        blocks.append((_LANGUAGE.findall(word)[0] if word else "", text[begin:end]))
        at = text.find(_FENCE, after)
    return blocks


def _closing(text: str, begin: int) -> tuple[int, int]:
    """Where a block ends, and where the text behind its fence begins."""
    at = text.find(_FENCE, begin)
    while at >= 0:
        line = text.rfind("\n", begin - 1, at)
        if not text[line + 1 : at].strip(" \t"):
            return max(line, begin), at + len(_FENCE)
        after = text.find("\n", at)
        if after >= 0:
            at = text.find(_FENCE, after)
        else:
            at = -1
    return len(text), len(text)


def _defines(code: str, name: str) -> bool:
    word = re.escape(name)
    form = rf"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+{word}\b|^{word}[ \t]*="
    return name in code and re.search(form, code, re.M) is not None


def assemble(prompt: str, code: str, entry_point: str) -> str:
    """A whole program out of a stub and either a whole function or only its body."""
    if not prompt or _defines(code, entry_point):
        return f"{prompt}\n\n{code}" if prompt else code
    lines = code.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if first[:1].isspace():
        return f"{prompt.rstrip()}\n{code}"
    rest = (line for line in lines[lines.index(first) + 1 :] if line.strip())
    if next(rest, first)[:1].isspace() and all(line[:1].isspace() for line in rest):
        return f"{prompt.rstrip()}\n    {code.lstrip()}"
    indented = code.replace("\n", "\n    ")
    return f"{prompt.rstrip()}\n    {indented}"


def program_of(sample: ScorerInput) -> tuple[str, Measure, str]:
    """The program to run, the tests that judge it, and the code that was extracted."""
    meta = sample.metadata
    entry = str(meta.get("_entry_point") or meta.get("entry_point") or "solution")
    prompt = str(meta.get("_prompt") or "")
    test = str(meta.get("_test") or meta.get("test") or "")
    code = extract_code(sample.response, entry)
    if code.strip():
        program = assemble(prompt, code, entry)
    else:
        program = ""
    return program, Measure(test, entry, prompt), code


@versioned("3", inline=False)
def code_sandbox(sample: ScorerInput, timeout: float = 30.0) -> Any:
    """Does the code pass its tests in the sample's sandbox? ``_prompt``, ``_test``, ``_entry_point`` are metadata. In a
    plain function the score itself; in a coroutine, where nothing may block, something to await."""
    work = code_sandbox_async(sample, sample.sandbox, timeout)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        home = SCORER_LOOP.get(None)
        if home is not None:
            return asyncio.run_coroutine_threadsafe(work, home).result()
        return asyncio.run(work)
    return work


@versioned("3", inline=False)
async def code_sandbox_async(
    sample: ScorerInput, sandbox: Sandbox | None, timeout: float = 30.0
) -> Score:
    """The same in a given sandbox; raises SandboxError when there is none, for then nothing was measured."""
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
    """Run a program in a sandbox and its tests beside it, out of its reach. ``verdict`` says how it ended: passed,
    wrong, compile_error, timeout, out_of_memory or crash. Raises TamperError when the program reached for the judge,
    and ScorerError when the tests cannot be run."""
    if sandbox is None:
        raise SandboxError(
            "running model-written code needs a sandbox",
            hint="give the benchmark a sandbox, e.g. `sandbox: {type: local}`",
        )
    word = secrets.token_hex(16)
    stdin = _modules() + _part({"program": _clean(program), "timeout": timeout})
    prepared = prepare(Measure(_clean(tests.source), tests.entry, _clean(tests.stub)))
    needs_more = prepared["collect"] or prepared["mentioned"]
    stdin += _part(
        {**prepared, "word": word, "modules": _compiled(_MORE_MODULES) if needs_more else []}
    )
    command = ["python3", "-I", "-S", "-c", _BOOT]
    result = await _run_in_living_sandbox(sandbox, command, stdin, timeout=timeout + _GRACE)
    if result.exit_code == _NO_INTERPRETER and not result.timed_out and word not in result.stdout:
        found = await run_judge(sandbox, ["python", *command[1:]], stdin, timeout=timeout + _GRACE)
        if found.exit_code == _NO_INTERPRETER:
            raise SandboxError("the sandbox has no Python", hint="choose an image with python3")
        result = found
    verdict, why = _verdict(result, word)
    details = {"correct": verdict == "passed", "verdict": verdict, "exit_code": result.exit_code}
    details["duration_ms"] = round(result.duration_ms, 1)
    if verdict == "passed":
        return details
    return {**details, "stderr": why[:_SHOWN]}


async def _run_in_living_sandbox(
    sandbox: Sandbox, command: list[str], stdin: bytes, timeout: float
) -> ExecResult:
    """Run a judge; when its sandbox ends under it twice, and a sandbox without the program lives, that is tamper."""
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
def _modules() -> bytes:
    """The judge as source and, for an interpreter like this one, as code: compiling it takes longer than judging."""
    return _part({"magic": importlib.util.MAGIC_NUMBER, "modules": _compiled(_MODULES)})


@cache
def _compiled(names: tuple[str, ...]) -> list[tuple[str, str, bytes]]:
    """The name, the source and the code of each module."""
    folder = files("nemo_evaluator.scoring") / "judging"
    modules = []
    for name in names:
        source = (folder / f"{name}.py").read_text(encoding="utf-8")
        tree = ast.parse(source)
        # The flag says the same, and spares each judge the import of that module.
        tree.body = [node for node in tree.body if not _is_future_import(node)]
        code = compile(
            tree,
            f"{name}.py",
            "exec",
            __future__.annotations.compiler_flag,
            dont_inherit=True,
            optimize=2,
        )
        modules.append((name, source, marshal.dumps(code)))
    return modules


def _is_future_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _part(content: dict[str, Any]) -> bytes:
    data = marshal.dumps(content, _FORMAT)
    return b"%010d" % len(data) + data


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _verdict(result: ExecResult, word: str) -> tuple[str, str]:
    """What the line with our word says; nobody but the judge knew the word."""
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
        verdict, why = values.decode(bytes.fromhex(line.partition(" ")[2]), values.no_reference)
    except (ValueError, TypeError, values.Malformed):
        raise TamperError("the line with the verdict cannot be read") from None
    if verdict == "tamper":
        raise TamperError(why)
    if verdict == "unjudged":
        raise ScorerError(f"the tests of this problem cannot be run: {why}")
    if verdict == "crash" and result.out_of_memory:
        return "out_of_memory", why
    return verdict, why
