"""Which names of a test file would be its measure: they decide what is right, so the program must not define them.

A program may define what the tests are about: its entry point, and functions and classes that are used beside it. It
may not define what compares an answer with an expected value (``approx(f(3), 9)``), what an answer is compared with
(``f(3) == expected``), what expects an exception, or what decorates a test.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from nemo_evaluator.scoring.code_flow import APART, CERTAIN, Flow
from nemo_evaluator.scoring.code_scopes import FUNCTIONS, FileScopes, NameScope, own_nodes
from nemo_evaluator.scoring.code_values import find_value_use

# Names that everybody takes from a library.
_WELL_KNOWN: Final = frozenset(
    {
        "AsyncMock",
        "MagicMock",
        "Mock",
        "TestCase",
        "allclose",
        "approx",
        "array_equal",
        "given",
        "hypothesis",
        "mock",
    }
    | {
        "mocker",
        "np",
        "npt",
        "numpy",
        "patch",
        "pd",
        "raises",
        "scipy",
        "sp",
        "st",
        "sympy",
        "tf",
        "torch",
    }
)
_ORDERING: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot)
_ABOUT_CLASSES: Final = ("isinstance", "issubclass", "callable", "hasattr", "type")
_TRIVIAL: Final = (True, False, None, 0, 1, -1, "", "True", "False", "None")
_COMPOSITE: Final = (
    *(ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Starred, ast.Lambda, ast.JoinedStr),
    *(ast.BinOp, ast.Compare, ast.BoolOp, ast.ListComp, ast.GeneratorExp, ast.IfExp),
)


def find_measure(
    module: ast.Module, scopes: FileScopes, entry: str, is_program: Callable[[str], bool]
) -> str | None:
    """A name that measures an answer and that only the program could define; None when there is no such name."""
    used = _count_names(scopes, is_program)
    if entry not in used and used:
        # The tests do not say what they are about: it is what they call most.
        entry = used.most_common(1)[0][0]
    foreign = set(used) - {entry}
    for name in sorted(foreign):
        if name in _WELL_KNOWN or name.startswith("assert"):
            return name
    if foreign:
        return _Search(scopes, entry, foreign).find()
    return None


def program_names(scopes: FileScopes, is_program: Callable[[str], bool]) -> set[str]:
    """The names that the tests use and do not define."""
    return set(_count_names(scopes, is_program))


def _count_names(scopes: FileScopes, is_program: Callable[[str], bool]) -> Counter[str]:
    names: Counter[str] = Counter()
    for scope in scopes:
        for node in scope.nodes:
            if (
                isinstance(node, ast.Name)
                and scopes.find(node.id, scope) is None
                and is_program(node.id)
            ):
                names[node.id] += 1
    return names


class _Search:
    """Looks at every place where a foreign name is used: one that only the program defines, beside its entry point."""

    def __init__(self, scopes: FileScopes, entry: str, foreign: set[str]) -> None:
        self._scopes = scopes
        self._foreign = foreign
        module = scopes.module.node
        assert isinstance(module, ast.Module)
        self._from_entry = Flow(module, scopes, lambda name: name == entry)
        self._entry = entry
        self._from_program = Flow(module, scopes, lambda name: name == entry or name in foreign)
        self._from_foreign = Flow(module, scopes, lambda name: name in foreign)
        self._assigned = self._assignments()
        self._seen: set[int] = set()

    def find(self) -> str | None:
        """The first measure."""
        for scope in self._scopes:
            name = find_value_use(scope, self._is_foreign, self._is_of_program) or self._measure_in(
                scope
            )
            if name is not None:
                return name
        return None

    def _measure_in(self, scope: NameScope) -> str | None:
        for expression in self._outside(scope):
            for foreign_name in self._names_in(expression, scope):
                return foreign_name
        for node in scope.nodes:
            name = self._measure_at(node, scope)
            if name is not None:
                return name
        return None

    def _outside(self, scope: NameScope) -> list[ast.expr]:
        """Decorators and defaults: what a foreign name decides there, nobody sees."""
        if not isinstance(scope.node, FUNCTIONS) or scope.parent is None:
            return []
        defaults = [default for default in scope.node.args.kw_defaults if default is not None]
        return [*scope.node.decorator_list, *scope.node.args.defaults, *defaults]

    def _measure_at(self, node: ast.AST, scope: NameScope) -> str | None:
        if isinstance(node, ast.ClassDef):
            return next(
                (name for part in node.decorator_list for name in self._names_in(part, scope)), None
            )
        if isinstance(node, ast.Assert):
            return self._decides(node.test, scope)
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            return self._steers([node.test], scope)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            return self._brought_along(node.iter, scope)
        if isinstance(node, ast.comprehension):
            return self._brought_along(node.iter, scope) or self._steers(node.ifs, scope)
        if isinstance(node, ast.match_case):
            return self._steers([node.guard] if node.guard is not None else [], scope)
        if isinstance(node, ast.Lambda):
            return next(
                (name for part in node.args.defaults for name in self._names_in(part, scope)), None
            )
        if isinstance(node, ast.withitem):
            # It could swallow the exception of an assertion.
            roots = self._roots(node.context_expr, scope)
            if roots:
                return min(roots)
            return None
        if isinstance(node, (ast.BinOp, ast.Set)):
            return self._mixed(node, scope)
        if isinstance(node, ast.Call):
            return self._measure_of_call(node, scope)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return self._measure_of_statement(node.value, scope)
        return None

    def _steers(self, conditions: list[ast.expr], scope: NameScope) -> str | None:
        """The measure in conditions that say which assertions are reached."""
        for condition in conditions:
            name = self._brought_along(condition, scope) or self._decides(condition, scope)
            if name is not None:
                return name
        return None

    def _brought_along(self, node: ast.expr, scope: NameScope) -> str | None:
        """A name behind a value that has nothing to do with the entry point: cases, flags, what is expected."""
        if (
            self._from_foreign.level(node, scope) != CERTAIN
            or self._from_entry.level(node, scope) == CERTAIN
        ):
            return None
        names = self._origins(node, scope, set())
        if names:
            return min(names)
        return None

    def _origins(self, node: ast.AST, scope: NameScope, seen: set[int]) -> set[str]:
        """The foreign names behind a value, also behind names and functions of the tests."""
        if id(node) in seen:
            return set()
        seen.add(id(node))
        names: set[str] = set()
        for part in (node, *own_nodes(node)):
            if isinstance(part, ast.Name):
                if self._is_foreign(part, scope):
                    names.add(part.id)
                for value, owner in self._parts(part, scope):
                    names |= self._origins(value, owner, seen)
        return names

    def _mixed(self, node: ast.BinOp | ast.Set, scope: NameScope) -> str | None:
        """``f(3) - expected()`` and ``len({f(3), expected()})`` compare as well."""
        if isinstance(node, ast.BinOp):
            sides = [node.left, node.right]
        else:
            sides = node.elts
        for number, side in enumerate(sides):
            others = sides[:number] + sides[number + 1 :]
            answers = any(self._from_entry.level(other, scope) == CERTAIN for other in others)
            roots = self._roots(side, scope)
            if answers and roots and self._from_entry.level(side, scope) == APART:
                return min(roots)
        return None

    def _measure_of_call(self, node: ast.Call, scope: NameScope) -> str | None:
        """``raises(ValueError)``, and ``self.assertEqual(f(3), approx(9))``."""
        roots = self._roots(node.func, scope)
        if roots and any(_is_exception(argument) for argument in node.args):
            return min(roots)
        asserts = isinstance(node.func, (ast.Attribute, ast.Name)) and _last_name(
            node.func
        ).startswith("assert")
        if not asserts or roots:
            return None
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        if (
            _last_name(node.func) in ("assertTrue", "assertFalse", "assertIs", "assertIsNot")
            or len(values) == 1
        ):
            return next(filter(None, (self._decides(value, scope) for value in values[:1])), None)
        return self._compared(values[:2], scope, is_ordering=False)

    def _measure_of_statement(self, node: ast.Call, scope: NameScope) -> str | None:
        """``same(f(3), 9)`` for itself can only be an assertion."""
        roots = self._roots(node.func, scope)
        arguments = self._arguments(node)
        if not roots or not self._is_comparison(arguments):
            return None
        for argument in arguments:
            for part in (argument, *own_nodes(argument)):
                if isinstance(part, ast.Call) and self._from_entry.level(part.func, scope):
                    return min(roots)
        return None

    def _decides(self, node: ast.AST, scope: NameScope, *, is_size: bool = False) -> str | None:
        """The measure in an expression whose truth decides the verdict."""
        if id(node) in self._seen:
            return None
        self._seen.add(id(node))
        if isinstance(node, ast.Compare):
            return self._decides_comparison(node, scope)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == self._entry:
                # What the entry point is given is its own affair.
                return None
            name = self._decides_call(node, scope, is_size=is_size)
            if name is not None:
                return name
        for part, part_scope in self._parts(node, scope):
            name = self._decides(part, part_scope, is_size=is_size)
            if name is not None:
                return name
        return None

    def _decides_comparison(self, node: ast.Compare, scope: NameScope) -> str | None:
        is_ordering = any(isinstance(operator, _ORDERING) for operator in node.ops)
        return self._compared([node.left, *node.comparators], scope, is_ordering=is_ordering)

    def _compared(
        self, sides: list[ast.expr], scope: NameScope, *, is_ordering: bool
    ) -> str | None:
        """The measure among values that are compared with each other."""
        for number, side in enumerate(sides):
            others = sides[:number] + sides[number + 1 :]
            answers = any(self._from_entry.level(other, scope) for other in others)
            if answers and not self._from_entry.level(side, scope):
                # An answer of the entry point is compared with what the program says is right.
                for foreign_name in self._names_in(side, scope):
                    return foreign_name
            if answers:
                name = self._brought_along(side, scope)
                if name is not None:
                    return name
            if isinstance(side, ast.Call) and self._repeats(side, others):
                roots = self._roots(side.func, scope)
                if roots and any(
                    self._from_program.level(argument, scope) for argument in self._arguments(side)
                ):
                    return min(roots)
            if is_ordering or all(_is_trivial(other) for other in others):
                # ``to_list(f([])) == []`` may be about the program, ``is_right(f(3)) == True`` is not.
                is_size = any(_is_empty(other) for other in others)
                name = self._decides(side, scope, is_size=is_size)
                if name is not None:
                    return name
        return None

    def _repeats(self, node: ast.Call, others: list[ast.expr]) -> bool:
        """``pick(f(3), 9) == 9``: what is expected is passed along."""
        arguments = self._arguments(node)
        dumps = {ast.dump(argument) for argument in arguments}
        return len(arguments) > 1 and any(ast.dump(other) in dumps for other in others)

    def _decides_call(self, node: ast.Call, scope: NameScope, *, is_size: bool) -> str | None:
        arguments = self._arguments(node)
        roots = self._roots(node.func, scope)
        for argument in arguments if _last_name(node.func) not in _ABOUT_CLASSES else []:
            if isinstance(argument, ast.Name):
                # ``all(map(same, answers, expected))``
                if not self._is_subject(node, scope):
                    roots = roots | self._roots(argument, scope)
                else:
                    roots = roots
        if not roots:
            return None
        if (
            any(self._from_entry.level(argument, scope) == CERTAIN for argument in arguments)
            and not is_size
        ):
            return min(roots)
        involved = any(self._from_program.level(argument, scope) for argument in arguments)
        if involved and self._is_comparison(arguments):
            return min(roots)
        return None

    def _is_subject(self, node: ast.Call, scope: NameScope) -> bool:
        return self._from_entry.level(node.func, scope) != APART

    def _is_comparison(self, arguments: list[ast.expr]) -> bool:
        """There are two values, or there may be."""
        return len(arguments) > 1 or any(isinstance(argument, _COMPOSITE) for argument in arguments)

    def _arguments(self, node: ast.Call) -> list[ast.expr]:
        """What a call is given, with what the calls before it in a chain were given: ``expect(f(3)).equals(9)``."""
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        function = node.func
        while isinstance(function, (ast.Attribute, ast.Subscript)):
            function = function.value
        if isinstance(function, ast.Call):
            return [*self._arguments(function), *arguments]
        return arguments

    def _parts(self, node: ast.AST, scope: NameScope) -> Iterator[tuple[ast.AST, NameScope]]:
        """The expressions that an expression's value is made from, as far as they stand in the file."""
        if isinstance(node, ast.Name):
            owner = self._scopes.find(node.id, scope)
            if owner is not None:
                yield from self._assigned.get((owner, node.id), [])
                yield from self._returns(node.id, owner)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.comprehension):
                yield child.iter, scope
            elif isinstance(child, ast.keyword):
                yield child.value, scope
            elif isinstance(child, ast.expr):
                yield child, scope

    def _returns(self, name: str, owner: NameScope) -> Iterator[tuple[ast.AST, NameScope]]:
        """What a function of the tests returns."""
        for scope in self._scopes:
            if (
                scope.parent is owner
                and isinstance(scope.node, FUNCTIONS)
                and scope.node.name == name
            ):
                for value in _returned(scope):
                    yield value, scope

    def _roots(self, node: ast.AST, scope: NameScope, depth: int = 0) -> set[str]:
        """The foreign names from which a function or object comes."""
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Await)):
            if isinstance(node, ast.Call):
                node = node.func
            else:
                node = node.value
        if isinstance(node, ast.Name):
            owner = self._scopes.find(node.id, scope)
            if owner is None:
                return {node.id} & self._foreign
            roots: set[str] = set()
            for value, value_scope in self._assigned.get((owner, node.id), []) if depth < 5 else []:
                if self._from_entry.level(value, value_scope) != CERTAIN:
                    for part in (value, *own_nodes(value)):
                        if isinstance(part, ast.Name):
                            roots |= self._roots(part, value_scope, depth + 1)
            return roots
        if isinstance(
            node, (ast.IfExp, ast.BoolOp, ast.Lambda, ast.List, ast.Tuple, ast.Dict, ast.NamedExpr)
        ):
            return set(self._names_in(node, scope))
        return set()

    def _is_foreign(self, node: ast.Name, scope: NameScope) -> bool:
        return node.id in self._foreign and self._scopes.find(node.id, scope) is None

    def _is_of_program(self, node: ast.AST, scope: NameScope) -> bool:
        return self._from_program.level(node, scope) != APART

    def _names_in(self, node: ast.AST, scope: NameScope) -> Iterator[str]:
        for part in (node, *own_nodes(node)):
            if isinstance(part, ast.Name) and self._is_foreign(part, scope):
                yield part.id

    def _assignments(self) -> dict[tuple[NameScope, str], list[tuple[ast.expr, NameScope]]]:
        """All values that each name is assigned, or taken from, also through parameters and fixtures."""
        assigned: dict[tuple[NameScope, str], list[tuple[ast.expr, NameScope]]] = {}
        for scope in self._scopes:
            for node in scope.nodes:
                for target, value in _bindings(node):
                    for part in (target, *own_nodes(target)):
                        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
                            assigned.setdefault((scope, part.id), []).append((value, scope))
                if isinstance(node, ast.Call):
                    for function, name, argument in self._from_program.given(node, scope):
                        assigned.setdefault((function, name), []).append((argument, scope))
            for name in scope.parameters:
                for fixture in self._from_program.fixtures_of(name):
                    values = [(value, fixture) for value in _returned(fixture)]
                    assigned.setdefault((scope, name), []).extend(values)
        return assigned


def _returned(scope: NameScope) -> list[ast.expr]:
    """What a function returns or yields."""
    nodes: list[ast.Return | ast.Yield | ast.YieldFrom] = []
    for node in scope.nodes:
        if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)):
            nodes.append(node)
    return [node.value for node in nodes if node.value is not None]


def _bindings(node: ast.AST) -> Iterator[tuple[ast.AST, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield target, node.value
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield node.target, node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def _is_empty(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value == ""
    return isinstance(node, (ast.Dict, ast.List, ast.Tuple))


def _is_trivial(node: ast.expr) -> bool:
    """A value that says yes or no."""
    if isinstance(node, ast.Constant):
        return any(node.value is value or node.value == value for value in _TRIVIAL)
    if isinstance(node, ast.Dict):
        return not node.keys
    return isinstance(node, (ast.List, ast.Tuple)) and not node.elts


def _is_exception(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return any(_is_exception(element) for element in node.elts)
    if not isinstance(node, ast.Name):
        return False
    kind = getattr(builtins, node.id, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return ""
