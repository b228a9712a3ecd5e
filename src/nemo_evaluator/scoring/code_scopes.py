"""Where the names of a test file are bound: by the module, by a function, or by nobody in the file."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Scoped: TypeAlias = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
# Nodes without nodes below but the context in which a name stands.
_LEAVES: Final = (ast.Constant, ast.Name)
_OWN_NAMES: Final = frozenset({"__name__", "__file__", "__builtins__", "__doc__", "__class__"})
_BUILTINS: Final = frozenset(dir(builtins)) | _OWN_NAMES


@dataclass(eq=False)
class NameScope:
    """The names that one module, class or function binds."""

    node: Scoped
    parent: NameScope | None
    names: set[str] = field(default_factory=set)
    parameters: set[str] = field(default_factory=set)
    # Names that a ``global`` statement sends to the module.
    outer: set[str] = field(default_factory=set)
    # All nodes of its own, without those of the functions and classes inside.
    nodes: list[ast.AST] = field(default_factory=list)

    @property
    def is_class(self) -> bool:
        """Functions inside do not see its names."""
        return isinstance(self.node, ast.ClassDef)


class FileScopes:
    """All scopes of a file."""

    def __init__(self, module: ast.Module) -> None:
        self.module = NameScope(module, None)
        # The top-level module behind each imported name.
        self.imported: dict[str, str] = {}
        self._of_node: dict[ast.AST, NameScope] = {module: self.module}
        self._fill(self.module)

    def __iter__(self) -> Iterator[NameScope]:
        return iter(self._of_node.values())

    def of(self, node: Scoped) -> NameScope:
        """The scope that a module, class or function opens."""
        return self._of_node[node]

    def find(self, name: str, scope: NameScope) -> NameScope | None:
        """The scope that binds a name where it is read; None when nobody in the file does."""
        current: NameScope | None = scope
        while current is not None:
            hidden = current.is_class and current is not scope
            if name in current.names and not hidden and name not in current.outer:
                return current
            current = current.parent
        return None

    def is_builtin(self, name: str) -> bool:
        """Python itself defines it."""
        return name in _BUILTINS

    def _fill(self, scope: NameScope) -> None:
        if isinstance(scope.node, FUNCTIONS):
            scope.parameters |= parameters_of(scope.node.args)
            scope.names |= scope.parameters
        scope.nodes = list(own_nodes(scope.node))
        for node in scope.nodes:
            self._bind(node, scope)
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                inner = NameScope(node, scope)
                self._of_node[node] = inner
                self._fill(inner)

    def _bind(self, node: ast.AST, scope: NameScope) -> None:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            scope.names.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            scope.names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                name = (alias.asname or alias.name).partition(".")[0]
                if isinstance(node, ast.ImportFrom):
                    module = node.module or ""
                else:
                    module = alias.name
                scope.names.add(name)
                self.imported[name] = module.partition(".")[0]
        elif isinstance(node, ast.ExceptHandler) and node.name:
            scope.names.add(node.name)
        elif isinstance(node, ast.Lambda):
            scope.names |= parameters_of(node.args)
            scope.parameters |= parameters_of(node.args)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            scope.outer |= set(node.names)
            if isinstance(node, ast.Global):
                self.module.names |= set(node.names)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            scope.names.add(node.name)


def parameters_of(arguments: ast.arguments) -> set[str]:
    """The names of all parameters."""
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parameters += [extra for extra in (arguments.vararg, arguments.kwarg) if extra is not None]
    return {parameter.arg for parameter in parameters}


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below one, without the bodies of the functions and classes inside."""
    waiting = _children(node)
    waiting.reverse()
    while waiting:
        child = waiting.pop()
        yield child
        if isinstance(child, _LEAVES):
            # Tests with tables of data consist of these.
            continue
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            below: list[ast.AST] = [*_evaluated_outside(child)]
        else:
            below = _children(child)
        below.reverse()
        waiting += below


def _children(node: ast.AST) -> list[ast.AST]:
    children: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            children.append(value)
        elif isinstance(value, list):
            children += [item for item in value if isinstance(item, ast.AST)]
    return children


def _evaluated_outside(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
) -> list[ast.expr]:
    """What of a definition is evaluated where it stands: decorators, defaults, bases."""
    outside = list(node.decorator_list)
    if isinstance(node, ast.ClassDef):
        return outside + node.bases + [keyword.value for keyword in node.keywords]
    defaults = [default for default in node.args.kw_defaults if default is not None]
    return outside + node.args.defaults + defaults
