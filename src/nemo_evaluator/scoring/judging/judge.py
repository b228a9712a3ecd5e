"""The judge's side: it runs the tests, which find proxies where they expect the program, and compares plain values."""

from __future__ import annotations

from .controls import ControlSession, answers_of
from .counting import End, Failed, Skipped, Unrunnable, describe
from .names import Names
from .session import ProgramSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Callable
    from typing import Any, Final

# The part of ``signal`` that needs no import from a file; type checkers do not know it.
signal: Any = __import__("_signal")
# Seconds that all controls together may take, and between two attempts to end them.
_CONTROL_SECONDS: Final = 1.0
_REPEATED: Final = 0.1
# The verdict on tests that can judge no program. "unjudged" is the verdict on one run, and needs to be confirmed by a
# run without the program.
UNJUDGEABLE: Final = "unjudgeable"


def judge(
    session: ProgramSession, tests: dict[str, Any], end_program: Callable[[], None]
) -> tuple[str, str]:
    """Run the tests.

    Args:
        session: Asks the program.
        tests: What was read after the program was started; see ``code_tests.Prepared``.
        end_program: Kills the program and all processes that it started.

    Returns:
        The verdict, and why it is not "passed".
    """
    if tests["unjudged"]:
        return UNJUDGEABLE, tests["unjudged"]
    try:
        code = compile(tests["tests"], "tests.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return "unjudged", f"the tests are not valid Python: {describe(error)}"
    if tests["without_program"]:
        return _run_without_program(code, session, tests)
    verdict = _run_tests(code, session, tests)
    if verdict[0] != "passed":
        return verdict
    if session.tally.decided:
        # Tests that compare an answer with a literal fail every control: running them would show nothing.
        return verdict
    # The program is not needed any more, and must not disturb what follows.
    end_program()
    if _passes_a_control(code, session, tests):
        return UNJUDGEABLE, "the tests also pass a program that answers every question alike"
    return verdict


def _run_without_program(
    code: Any, session: ProgramSession, tests: dict[str, Any]
) -> tuple[str, str]:
    """Run the tests with unknown answers, and return UNJUDGEABLE or what else happens."""
    from .unanswered import ITEM_COUNTS, UnansweredSession  # noqa: PLC0415 - few verdicts need it

    confirmed = ""
    for items in ITEM_COUNTS:
        unanswered = UnansweredSession(session.tally, items, may_decide=not tests["asserts"])
        verdict, reason = _run_tests(code, unanswered, tests)
        if verdict == "crash" and not tests["asserts"]:
            # Tests without an assertion about answers, which an unknown answer makes fail, show nothing.
            continue
        if verdict not in ("unjudged", UNJUDGEABLE):
            return verdict, reason
        if unanswered.is_decided:
            return "wrong", "an answer decides the course of the tests"
        confirmed = reason
    if not confirmed:
        return "wrong", "unknown answers make the tests fail"
    return UNJUDGEABLE, confirmed


def _run_tests(
    code: Any, session: ProgramSession | ControlSession, tests: dict[str, Any]
) -> tuple[str, str]:
    """Run the tests once, and return the verdict and why it is not "passed"."""
    try:
        session.greet()
        _run(code, Names(session, tests), tests)
    except End:
        pass
    except BaseException as error:  # noqa: BLE001 - whatever the tests raise is their verdict
        if session.ended is None:
            return _verdict_of(error, session, tests)
    return session.ended or _conclusion(session, tests)


def _passes_a_control(code: Any, session: ProgramSession, tests: dict[str, Any]) -> bool:
    """Whether the tests pass a program that cannot be right.

    Tests that take too long for it count as tests that fail it.
    """
    signal.setitimer(signal.ITIMER_REAL, _CONTROL_SECONDS, _REPEATED)
    tally = session.tally
    passes = False
    try:
        for answer in answers_of(tally, has_defaults=tests["defaults"]):
            control = ControlSession(tally, answer, awaited="await" in tests["tests"])
            if _run_tests(code, control, tests)[0] == "passed":
                passes = True
                break
    except End:
        # The time is up while no test runs.
        passes = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0, 0)
    tally.reset()
    return passes


def _run(code: Any, names: Names, tests: dict[str, Any]) -> None:
    session = names.session
    if tests["mentioned"] and isinstance(session, ProgramSession):
        # Once: controls come later, and find the libraries prepared.
        from .libraries import prepare_libraries  # noqa: PLC0415 - it is sent along only where it is needed

        prepare_libraries(session.tally, tests["mentioned"])
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
    error: BaseException, session: ProgramSession | ControlSession, tests: dict[str, Any]
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


def _conclusion(session: ProgramSession | ControlSession, tests: dict[str, Any]) -> tuple[str, str]:
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
    verdict = "unjudged" if tests["may_count"] else UNJUDGEABLE
    return verdict, "no assertion of the tests depends on the program"
