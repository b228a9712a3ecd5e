"""Builds the syntax nodes that are added to a test file."""

from __future__ import annotations

import ast
from typing import TypeVar

_Node = TypeVar("_Node", bound=ast.AST)


def calling(name: str, *arguments: ast.expr) -> ast.Call:
    """Return a call of a function that the judge provides."""
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def reporting_failure(statement: ast.stmt) -> ast.stmt:
    """``try: ... except BaseException: if __nel_failed__(): raise``."""
    report = ast.If(calling("__nel_failed__"), [ast.Raise()], [])
    handler = ast.ExceptHandler(ast.Name("BaseException", ast.Load()), None, [report])
    return ast.Try([statement], [handler], [], [])


def placed(node: _Node, place: ast.AST) -> _Node:
    """Give a new node the position of the one that it replaces or precedes."""
    return ast.fix_missing_locations(ast.copy_location(node, place))
