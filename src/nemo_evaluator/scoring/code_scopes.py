"""Where the names of a test file are bound: by the module, by a class, by a function, or nowhere in the file."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Scoped: TypeAlias = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
# Nodes whose only child is the context of a name.
_LEAVES: Final = (ast.Constant, ast.Name)
_OWN_NAMES: Final = frozenset({"__name__", "__file__", "__builtins__", "__doc__", "__class__"})
_BUILTINS: Final = frozenset(dir(builtins)) | _OWN_NAMES


@dataclass(eq=False)
class NameScope:
    """The names that one module, class or function binds.

    Attributes:
        node: The module, class or function.
        parent: The scope around it; None for the module.
        names: All names that it binds, its parameters included.
        parameters: The names of its parameters and of those of lambdas in it.
        outer: Names that a ``global`` or ``nonlocal`` statement binds further out.
        nodes: All nodes of its own, without those of the functions and classes inside.
    """

    node: Scoped
    parent: NameScope | None
    names: set[str] = field(default_factory=set)
    parameters: set[str] = field(default_factory=set)
    outer: set[str] = field(default_factory=set)
    nodes: list[ast.AST] = field(default_factory=list)

    @property
    def is_class(self) -> bool:
        """Return whether functions inside cannot see the names of the scope."""
        return isinstance(self.node, ast.ClassDef)


class FileScopes:
    """All scopes of a file.

    Attributes:
        module: The scope of the file itself.
        imported: The top-level module behind each imported name.
    """

    def __init__(self, module: ast.Module) -> None:
        self.module = NameScope(module, None)
        self.imported: dict[str, str] = {}
        self._of_node: dict[ast.AST, NameScope] = {module: self.module}
        self._fill(self.module)

    def __iter__(self) -> Iterator[NameScope]:
        return iter(self._of_node.values())

    def of(self, node: Scoped) -> NameScope:
        """Return the scope that a module, class or function opens."""
        return self._of_node[node]

    def find(self, name: str, scope: NameScope) -> NameScope | None:
        """Find the scope that binds a name.

        Args:
            name: The name.
            scope: The scope that reads it.

        Returns:
            The innermost scope that binds it; None when the file does not bind it.
        """
        current: NameScope | None = scope
        while current is not None:
            is_hidden = current.is_class and current is not scope
            if name in current.names and not is_hidden and name not in current.outer:
                return current
            current = current.parent
        return None

    def is_builtin(self, name: str) -> bool:
        """Return whether Python itself defines a name."""
        return name in _BUILTINS

    def _fill(self, scope: NameScope) -> None:
        """Collect the nodes and names of a scope, and those of the scopes inside."""
        if isinstance(scope.node, FUNCTIONS):
            scope.parameters |= parameters_of(scope.node.args)
            scope.names |= scope.parameters
        scope.nodes = list(own_nodes(scope.node))
        for node in scope.nodes:
            self._bind(node, scope)
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                inner_scope = NameScope(node, scope)
                self._of_node[node] = inner_scope
                self._fill(inner_scope)

    def _bind(self, node: ast.AST, scope: NameScope) -> None:
        """Note the names that one node binds in a scope."""
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            scope.names.add(node.name)
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                scope.names.add(node.id)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                self._bind_import(alias, alias.name, scope)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self._bind_import(alias, node.module or "", scope)
        elif isinstance(node, ast.Lambda):
            parameters = parameters_of(node.args)
            scope.names |= parameters
            scope.parameters |= parameters
        elif isinstance(node, ast.Global):
            scope.outer |= set(node.names)
            self.module.names |= set(node.names)
        elif isinstance(node, ast.Nonlocal):
            scope.outer |= set(node.names)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            scope.names.add(node.name)

    def _bind_import(self, alias: ast.alias, module: str, scope: NameScope) -> None:
        name = (alias.asname or alias.name).partition(".")[0]
        scope.names.add(name)
        self.imported[name] = module.partition(".")[0]


def parameters_of(arguments: ast.arguments) -> set[str]:
    """Return the names of all parameters."""
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            parameters.append(extra)
    return {parameter.arg for parameter in parameters}


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes below a node, in file order, without the bodies of functions and classes inside."""
    # A stack: the last node is the next one.
    pending = _children(node)
    pending.reverse()
    while pending:
        child = pending.pop()
        yield child
        if isinstance(child, _LEAVES):
            # A shortcut: tests with tables of data consist of such nodes.
            continue
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            nodes_below: list[ast.AST] = [*_evaluated_outside(child)]
        else:
            nodes_below = _children(child)
        nodes_below.reverse()
        pending += nodes_below


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
    """Return what a definition evaluates in the scope around it: decorators, defaults, bases."""
    outside = list(node.decorator_list)
    if isinstance(node, ast.ClassDef):
        return outside + node.bases + [keyword.value for keyword in node.keywords]
    defaults = [default for default in node.args.kw_defaults if default is not None]
    return outside + node.args.defaults + defaults
