"""What pieces of a test file do, as far as their syntax shows it: fail, skip, choose, swallow exceptions."""

from __future__ import annotations

import ast
from typing import Final

from nemo_evaluator.scoring.code_scopes import own_nodes

_ALL_EXCEPTIONS: Final = ("Exception", "BaseException")
_FAILING_CALLS: Final = ("fail", "exit")
_SKIPPING_CALLS: Final = ("skip", "skipTest", "SkipTest", "exit", "quit", "_exit")
_EXPECTING_CALLS: Final = ("raises", "assertRaises", "assertRaisesRegex", "suppress", "warns")


def always_fails(node: ast.AST) -> bool:
    """``assert False``, ``raise AssertionError``, ``self.fail()``, ``pytest.fail()``."""
    if isinstance(node, ast.Assert):
        return isinstance(node.test, ast.Constant) and not node.test.value
    if isinstance(node, ast.Raise):
        return node.exc is not None
    return isinstance(node, ast.Call) and called_name(node) in _FAILING_CALLS


def leaves_block(node: ast.AST) -> bool:
    """``return``, ``continue``, ``break``, and calls that skip."""
    if isinstance(node, (ast.Return, ast.Continue, ast.Break)):
        return True
    return isinstance(node, ast.Call) and called_name(node) in _SKIPPING_CALLS


def is_choice(node: ast.AST) -> bool:
    """Whether an expression may decide which calls inside it happen, and how often."""
    if isinstance(node, ast.Call):
        return called_name(node) == "map"
    return isinstance(node, (ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp))


def asks_for_nothing(node: ast.expr) -> bool:
    """Whether a call has an empty argument, so that an empty answer may be right: ``f([])``."""
    for part in (node, *own_nodes(node)):
        for argument in part.args if isinstance(part, ast.Call) else []:
            if isinstance(argument, (ast.List, ast.Tuple, ast.Set)) and not argument.elts:
                return True
            if isinstance(argument, ast.Dict) and not argument.keys:
                return True
            if isinstance(argument, ast.Constant) and not argument.value:
                return True
    return False


def shortest_display(nodes: list[ast.expr]) -> int:
    """The number of items of the shortest list or tuple that is written out among some expressions; 0 without one."""
    lengths: list[int] = []
    for node in nodes:
        if not isinstance(node, (ast.List, ast.Tuple)):
            continue
        if not any(isinstance(element, ast.Starred) for element in node.elts):
            lengths.append(len(node.elts))
    return min(lengths, default=0)


def has_value_as_message(node: ast.Call) -> bool:
    """``self.assertTrue(f(3), 9)``: the 9 is the message of the assertion, and is compared with nothing."""
    if called_name(node) not in ("assertTrue", "assertFalse") or len(node.args) != 2:
        return False
    message = node.args[1]
    return isinstance(message, ast.Constant) and not isinstance(message.value, (str, type(None)))


def demands_exception(node: ast.Call) -> bool:
    """``pytest.raises``, ``self.assertRaises`` and the like."""
    return called_name(node) in _EXPECTING_CALLS and called_name(node) != "suppress"


def may_swallow(node: ast.With | ast.AsyncWith) -> bool:
    """Whether a context may swallow exceptions that it does not name."""
    return any(not _names_exceptions(item.context_expr) for item in node.items)


def _names_exceptions(context: ast.expr) -> bool:
    """Whether a context is a known one that swallows only the exceptions in its arguments."""
    if not isinstance(context, ast.Call) or called_name(context) not in _EXPECTING_CALLS:
        return False
    is_broad = any(
        isinstance(argument, ast.Name) and argument.id in _ALL_EXCEPTIONS
        for argument in context.args
    )
    return called_name(context) != "suppress" or not is_broad


def catches_all(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches every exception, an assertion's too."""
    if handler.type is None:
        return True
    if isinstance(handler.type, ast.Tuple):
        kinds = handler.type.elts
    else:
        kinds = [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in _ALL_EXCEPTIONS for kind in kinds)


def names_stored(statements: list[ast.stmt]) -> set[str]:
    """The names that statements bind, without those in functions and classes inside."""
    names = set()
    for node in nodes_of(statements):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def blocks_of(node: ast.AST) -> list[list[ast.stmt]]:
    """The lists of statements in a node, such as the body of an ``if`` and that of its ``else``."""
    blocks = []
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            blocks.append(list(block))
    return blocks


def is_self(node: ast.expr) -> bool:
    """``self`` and ``cls``."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def called_name(node: ast.Call) -> str:
    """The name of the function or method that a call calls; "" for any other expression."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    if isinstance(node.func, ast.Name):
        return node.func.id
    return ""


def nodes_of(statements: list[ast.stmt]) -> list[ast.AST]:
    """Statements and all nodes inside, without those in functions and classes inside."""
    nodes: list[ast.AST] = []
    for statement in statements:
        nodes += [statement, *own_nodes(statement)]
    return nodes
