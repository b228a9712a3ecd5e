"""Prepares the tests of a problem for the judge: which of them to run, and in which form."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from nemo_evaluator.scoring.code_flow import Flow
from nemo_evaluator.scoring.code_measures import find_measure, program_names
from nemo_evaluator.scoring.code_processes import find_own_equality, find_process_use
from nemo_evaluator.scoring.code_rewrite import Rewriter
from nemo_evaluator.scoring.code_scopes import FUNCTIONS, FileScopes, own_nodes
from nemo_evaluator.scoring.code_sinks import find_sink
from nemo_evaluator.scoring.code_truth import Truth

# Names that the judge takes from a module when nobody imported it.
_COMPARING: Final = frozenset({"isclose", "Counter", "OrderedDict", "deque", "pytest"})
_CHECK: Final = "check"
_EXITS: Final = ("exit", "quit", "sys.exit")
# What users call the file of the program, when tests import from it.
_OWN_MODULES: Final = (
    "solution",
    "main",
    "program",
    "submission",
    "answer",
    "candidate",
    "your_module",
)
# Words whose libraries report to the judge.
_LIBRARIES: Final = ("pytest", "unittest", "suppress", "asyncio")


class Measure(NamedTuple):
    """The tests of a problem.

    Attributes:
        source: The tests, as Python source.
        entry: The name of the function under test.
        stub: The part of the problem that tests may take helpers from.
    """

    source: str
    entry: str
    stub: str = ""


@lru_cache(maxsize=1024)
def prepare(measure: Measure) -> dict[str, Any]:
    """Prepare tests for the judge.

    Returns:
        The content of the judge's request:

        - ``entry`` and ``stub``: as in ``measure``.
        - ``tests``: the rewritten source.
        - ``collect``: the test functions and classes to run.
        - ``mentioned``: the libraries that the judge has to prepare.
        - ``imports``: the modules that the tests import whatever the program answers.
        - ``asserts``: whether any assertion may depend on the program.
        - ``may_count``: whether a run of the tests may count any assertion or expected exception.
        - ``defaults``: whether the tests replace an answer that is None or empty.
        - ``branches``: the assertions that answers must not keep from being reached.
        - ``asked``: the names that the tests may take from the program.
        - ``unbound``: names of the tests that an answer may leave unbound.
        - ``unjudged``: why the tests cannot be run; empty when they can.
        - ``without_program``: whether to run them only to see if they can judge any program.
    """
    content: dict[str, Any] = {
        "entry": measure.entry,
        "stub": measure.stub,
        "collect": [],
        "imports": [],
    }
    content.update(
        tests="", asserts=False, defaults=False, branches={}, asked=[], unbound=[], unjudged=""
    )
    content.update(may_count=False, without_program=False)
    content["mentioned"] = [library for library in _LIBRARIES if library in measure.source]
    try:
        module = ast.parse(measure.source)
        _prepare_module(module, measure, content)
        content["tests"] = ast.unparse(module)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        content["unjudged"] = f"the tests are not valid Python: {type(error).__name__}: {error}"
    return content


def _prepare_module(module: ast.Module, measure: Measure, content: dict[str, Any]) -> None:
    """Rewrite the tests in place, and add to ``content`` what the judge needs to know about them."""
    _drop_own_imports(module, measure.entry)
    _call_check(module, measure.entry)
    _keep_last_word(module.body)
    _rename_hidden(module.body)
    scopes = FileScopes(module)
    stub_names = _defined_by(measure.stub)

    def is_program(name: str) -> bool:
        if name == measure.entry:
            return True
        is_known = scopes.is_builtin(name) or name in stub_names or name in _COMPARING
        return not is_known and name not in sys.stdlib_module_names

    flow = Flow(module, scopes, is_program)
    content["unjudged"] = _why_unjudged(
        module, scopes, flow, entry=measure.entry, is_program=is_program
    )
    content["defaults"] = any(_is_default(node) for node in ast.walk(module))
    rewriter = Rewriter(scopes, flow, Truth(scopes, measure.entry), measure.entry)
    content["imports"] = [name for name in _imports(module) if name not in flow.decided_imports]
    content["collect"] = _collected(module)
    rewriter.visit(module)
    content["asserts"] = rewriter.asserts
    content["may_count"] = rewriter.may_count
    content["branches"] = rewriter.branches
    content["asked"] = sorted(program_names(scopes, is_program) | {measure.entry})
    content["unbound"] = sorted(flow.decided_names)


def _why_unjudged(
    module: ast.Module,
    scopes: FileScopes,
    flow: Flow,
    entry: str,
    is_program: Callable[[str], bool],
) -> str:
    """Return why the tests cannot be run; empty when they can.

    Args:
        module: The test file.
        scopes: Its scopes.
        flow: How its expressions depend on the program.
        entry: The name of the function under test.
        is_program: Whether a name that the file does not bind comes from the program.
    """
    # Of several reasons, the last one is reported.
    reason = ""
    measure_name = find_measure(module, scopes, entry, is_program=is_program)
    if measure_name is not None:
        reason = f"the tests measure with {measure_name!r}, which only the program could define"
    sink = find_sink(scopes, flow)
    if sink is not None:
        reason = f"the tests would run an answer of the program as code, with {sink!r}"
    process_use = find_process_use(module)
    if process_use is not None:
        reason = f"the tests use {process_use}, which reaches only the judge's own process"
    compared_class = find_own_equality(scopes, is_program)
    if compared_class is not None:
        reason = f"the tests compare objects of {compared_class!r}, whose own code would decide the result"
    return reason


def _defined_by(stub: str) -> set[str]:
    """Return the names that a stub defines; none when it is not valid Python."""
    try:
        return FileScopes(ast.parse(stub)).module.names
    except (SyntaxError, ValueError, RecursionError):
        return set()


def _drop_own_imports(module: ast.Module, entry: str) -> None:
    """Remove imports such as ``from solution import f``: the tests find the program's names without them."""
    for node in list(module.body):
        if not isinstance(node, ast.ImportFrom) or node.module not in _OWN_MODULES:
            continue
        if all(alias.asname is None and alias.name == entry for alias in node.names):
            module.body.remove(node)


def _call_check(module: ast.Module, entry: str) -> None:
    """Add a call of ``def check(candidate)`` with the entry point, unless the tests call it themselves."""
    checks = [node for node in module.body if isinstance(node, FUNCTIONS) and node.name == _CHECK]
    if not checks or _is_called(module, _CHECK):
        return
    arguments = checks[-1].args
    required = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    call = f"{_CHECK}({entry if required else ''})"
    if isinstance(checks[-1], ast.AsyncFunctionDef):
        call = f"__import__('asyncio').run({call})"
    module.body += ast.parse(call).body


def _is_called(module: ast.Module, name: str) -> bool:
    """Return whether the tests call a function at module level."""
    for node in own_nodes(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            return True
    return False


def _rename_hidden(body: list[ast.stmt]) -> None:
    """Rename a test whose name is used again later: it would not be run otherwise."""
    last_definition: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            last_definition[node.name] = node
    for number, node in enumerate(body):
        if isinstance(node, ast.ClassDef):
            _rename_hidden(node.body)
        if (
            isinstance(node, (*FUNCTIONS, ast.ClassDef))
            and _is_test(node)
            and last_definition[node.name] is not node
        ):
            node.name = f"{node.name}_nel_{number}"


def _is_test(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return node.name.startswith("Test" if isinstance(node, ast.ClassDef) else "test")


def _collected(module: ast.Module) -> list[str]:
    """Return the names of test functions that nobody calls, and of test classes, in their order."""
    names: dict[str, None] = {}
    for node in _top_level(module.body):
        is_class = isinstance(node, ast.ClassDef) and (_is_test(node) or bool(node.bases))
        is_function = (
            isinstance(node, FUNCTIONS) and _is_test(node) and not _is_called(module, node.name)
        )
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and (is_class or is_function):
            names[node.name] = None
    return list(names)


def _keep_last_word(body: list[ast.stmt]) -> None:
    """Replace ``sys.exit(main())`` at the end of a script by a report to the judge, which then collects tests."""
    last_statement = body[-1] if body else None
    if isinstance(last_statement, ast.If):
        _keep_last_word(last_statement.body)
    if not isinstance(last_statement, ast.Expr) or not isinstance(last_statement.value, ast.Call):
        return
    name = ast.unparse(last_statement.value.func)
    if name in _EXITS and len(last_statement.value.args) <= 1:
        last_statement.value.func = ast.Name("__nel_leave__", ast.Load())
        last_statement.value.args = last_statement.value.args or [ast.Constant(None)]
        ast.fix_missing_locations(last_statement)


def _is_default(node: ast.AST) -> bool:
    """Return whether ``f(3) or 9``, ``9 if r is None else r`` or ``if r is None:`` may replace an answer."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return any(isinstance(operand, ast.Constant) for operand in node.values[1:])
    if not isinstance(node, (ast.If, ast.IfExp)):
        return False
    # Also ``if r:`` and ``if not r:``.
    return not isinstance(node.test, ast.Compare) or _mentions_none(node.test)


def _mentions_none(comparison: ast.Compare) -> bool:
    operands = [comparison.left, *comparison.comparators]
    return any(isinstance(operand, ast.Constant) and operand.value is None for operand in operands)


def _top_level(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a module, those below ``if`` and ``try`` included."""
    statements: list[ast.stmt] = []
    for node in body:
        statements.append(node)
        for field in ("body", "orelse", "finalbody"):
            if isinstance(node, (ast.If, ast.Try, ast.With)):
                statements += _top_level(getattr(node, field, []))
    return statements


def _imports(module: ast.Module) -> list[str]:
    """Return the top-level modules that the tests import anywhere."""
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return sorted(names)
