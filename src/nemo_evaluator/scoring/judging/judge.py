"""The judge's side: it runs the tests, which find proxies where they expect the program, and compares plain values."""

from __future__ import annotations

from .counting import End, Failed, Skipped, Unrunnable, describe
from .names import Names
from .session import ProgramSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from typing import Any


def judge(session: ProgramSession, tests: dict[str, Any]) -> tuple[str, str]:
    """Run the tests.

    Args:
        session: Asks the program.
        tests: What was read after the program was started; see ``code_tests.Prepared``.

    Returns:
        The verdict, and why it is not "passed".
    """
    if tests["unjudged"]:
        return "unjudged", tests["unjudged"]
    try:
        code = compile(tests["tests"], "tests.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return "unjudged", f"the tests are not valid Python: {describe(error)}"
    try:
        session.greet()
        names = Names(session, tests)
        if tests["mentioned"]:
            from .libraries import prepare_libraries  # noqa: PLC0415 - it is sent along only where it is needed

            prepare_libraries(session.tally, tests["mentioned"])
        _run(code, names, tests)
    except End:
        pass
    except BaseException as error:  # noqa: BLE001 - whatever the tests raise is their verdict
        if session.ended is None:
            return _verdict_of(error, session, tests)
    return session.ended or _conclusion(session, tests)


def _run(code: Any, names: Names, tests: dict[str, Any]) -> None:
    session = names.session
    try:
        exec(code, names)
    except SystemExit as error:
        # The last word of a script; anywhere else it would keep tests from being run.
        if error.code or session.reached:
            raise
    if tests["collect"]:
        from .collecting import run_collected  # noqa: PLC0415 - it is sent along only where it is needed

        run_collected(names, tests["collect"])


def _verdict_of(
    error: BaseException, session: ProgramSession, tests: dict[str, Any]
) -> tuple[str, str]:
    """The verdict when the tests raise an exception."""
    text = describe(error)
    if session.tally.raised is not None:
        is_assertion = isinstance(session.tally.raised, AssertionError)
        return "wrong" if is_assertion else "crash", session.tally.raised_text
    if isinstance(error, (AssertionError, Failed)):
        return "wrong", text
    if isinstance(error, Skipped):
        if session.tally.answers:
            return ("wrong", "the tests skip themselves after they asked the program")
        return ("unjudged", "the tests skip themselves")
    if isinstance(error, Unrunnable):
        return "unjudged", text
    if (
        isinstance(error, ModuleNotFoundError)
        and str(error.name).partition(".")[0] in tests["imports"]
    ):
        return "unjudged", text
    if not session.reached:
        return "unjudged", f"the tests fail by themselves: {text}"
    return "crash", text


def _conclusion(session: ProgramSession, tests: dict[str, Any]) -> tuple[str, str]:
    """The verdict when the tests came to their end."""
    tally = session.tally
    if tally.raised is not None:
        return "crash", tally.raised_text
    if tally.failure is not None:
        return "wrong", tally.failure
    if tally.skipped(tests["branches"]):
        return "wrong", "the answers kept assertions of the tests from being reached"
    if tally.counted:
        return "passed", ""
    if tally.answers and tests["asserts"]:
        return "wrong", "no assertion of the tests was reached"
    return "unjudged", "no assertion of the tests depends on the program"
