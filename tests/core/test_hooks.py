"""Calls from a package to a higher one are declared as hooks, and bound by the root of the package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import nemo_evaluator
from nemo_evaluator.core.hooks import Hook, check_bundle
from nemo_evaluator.decisions.check.check_run import check_run

_ROOT = Path(nemo_evaluator.__file__).parent


def test_the_check_of_a_bundle_is_bound_to_the_one_that_nel_check_uses() -> None:
    module, _, name = check_bundle._address.partition(":")
    assert (module, name) == (check_run.__module__, check_run.__name__)


def test_a_bound_hook_calls_its_function() -> None:
    hook = Hook("joining paths")
    hook.bind("posixpath:join")
    assert hook("a", "b") == "a/b"


def test_a_hook_without_a_function_says_what_is_missing() -> None:
    with pytest.raises(RuntimeError, match="no function is bound to joining paths"):
        Hook("joining paths")("a", "b")


@pytest.mark.parametrize("package", ["core", "runs", "statistics", "store"])
def test_lower_packages_name_no_higher_one_in_a_string(package: str) -> None:
    allowed = {"core", "config", "store", "runs", "statistics", "models"}
    upward = []
    for path in (_ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                root, _, rest = node.value.partition(".")
                if root == "nemo_evaluator" and rest and rest.split(".")[0] not in allowed:
                    upward.append(f"{path.name}: {node.value}")
    assert upward == []
