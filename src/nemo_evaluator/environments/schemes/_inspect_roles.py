"""The model roles of an Inspect task: which it asks for, and the models that play them.

Part of the child process of ``inspect://``.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any, Final

from inspect_ai import Task
from inspect_ai.model import GenerateConfig, Model, get_model
from inspect_ai.model._model import init_active_model, init_model_roles
from inspect_ai.model._model_role import ModelRole

from nemo_evaluator.core.types import JsonDict

_INSPECT: Final = "inspect_ai"
_OPENAI_API: Final = "openai-api"
# Generation settings that Inspect calls differently.
_NAMES: Final = {"stop": "stop_seqs"}


class AskedRoles(dict[str, Any]):
    """The roles of a task that is being loaded; it notes the names that the task looks up in vain."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """Note the name."""
        self.names.add(key)
        return default

    def __getitem__(self, key: str) -> Any:
        """Note the name."""
        self.names.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        """Note the name."""
        self.names.add(str(key))
        return False


def use_placeholder() -> AskedRoles:
    """Let tasks that take a model while they are loaded have one that is never called.

    Returns:
        The roles that they look up.
    """
    roles = AskedRoles()
    init_active_model(get_model("mockllm/model"), GenerateConfig())
    init_model_roles(roles)
    return roles


def models_of(job: JsonDict) -> tuple[Model, dict[str, Model | list[Model]]]:
    """Return the model under test and those of the roles; a task that is loaded afterwards finds them."""
    # The settings of the model under test are passed to the run, as `inspect eval` does it.
    model = get_model(f"{_OPENAI_API}/nel/{job['model']}", base_url=job["url"], api_key=job["key"])
    roles: dict[str, Model | list[Model]] = {}
    for role, players in job["role_models"].items():
        models = [_player(role, player) for player in players]
        roles[role] = models if len(models) > 1 else models[0]
    init_active_model(model, GenerateConfig())
    init_model_roles(roles)
    return model, roles


def generation_of(settings: JsonDict) -> JsonDict:
    """Return generation settings under Inspect's names."""
    return {_NAMES.get(name, name): value for name, value in settings.items()}


def _player(role: str, player: JsonDict) -> Model:
    """Return the model of a role, which has the generation settings of its own service."""
    return get_model(
        f"{_OPENAI_API}/{role}/{player['model']}",
        base_url=player["url"],
        api_key=player["key"],
        config=GenerateConfig(**generation_of(player["generation"])),
        memoize=False,
    )


def roles_in(task: Task) -> set[str]:
    """Return the roles that the code of a task's solvers, scorers and tools asks for."""
    names: set[str] = set()
    visited: set[int] = set()
    waiting: list[Any] = [task.setup, task.solver, task.scorer]
    while waiting:
        part = waiting.pop()
        if id(part) in visited or part is None or isinstance(part, (str, int, float, Task)):
            continue
        visited.add(id(part))
        if isinstance(part, ModelRole):
            names.add(part.name)
        elif isinstance(part, FunctionType):
            waiting += _used_by(part)
            if not _is_of_inspect(part):
                names |= _roles_in_code(part)
        else:
            waiting += _parts_of(part)
    return names


def _parts_of(value: Any) -> list[Any]:
    """Return what a container, a partial call, a method, a class or an object with code of its own holds."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, type):
        return [member for member in vars(value).values() if isinstance(member, FunctionType)]
    if callable(value):
        return [type(value), *getattr(value, "__dict__", {}).values()]
    return []


def _used_by(function: FunctionType) -> list[Any]:
    """Return the functions and values that a function uses: those around it, and those of its own package."""
    used: list[Any] = [getattr(function, "__wrapped__", None), *(function.__defaults__ or ())]
    used += _closure_values(function).values()
    if _is_of_inspect(function):
        return used
    package = _package_of(function)
    for name in _names_in(function.__code__):
        value = function.__globals__.get(name)
        is_code = isinstance(value, (FunctionType, type))
        if is_code and _package_of(value) == package:
            used.append(value)
    return used


def _closure_values(function: FunctionType) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:
            # The variable has no value yet.
            continue
    return values


def _names_in(code: Any) -> Iterator[str]:
    """Yield the names that code uses, with those of the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _names_in(constant)


def _package_of(value: Any) -> str:
    return str(getattr(value, "__module__", "")).partition(".")[0]


def _is_of_inspect(function: FunctionType) -> bool:
    return _package_of(function) == _INSPECT


def _roles_in_code(function: FunctionType) -> set[str]:
    """Return the roles in ``get_model(role=...)`` without another model, and in ``model_roles()``."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        # Code that was never in a file, such as that of a shell.
        return set()
    known = function.__globals__ | _parameter_defaults(tree) | _closure_values(function)
    names: set[str] = set()
    for node in ast.walk(tree):
        wanted = _role_expression(node)
        if isinstance(wanted, ast.Constant):
            value = wanted.value
        elif isinstance(wanted, ast.Name):
            value = known.get(wanted.id)
        else:
            continue
        if isinstance(value, ModelRole):
            names.add(value.name)
        elif isinstance(value, str):
            names.add(value)
    return names


def _parameter_defaults(tree: ast.AST) -> dict[str, Any]:
    """Return the constant defaults of the parameters of all functions in a piece of code."""
    defaults: dict[str, Any] = {}
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        with_default = positional[len(positional) - len(arguments.defaults) :]
        pairs = [
            *zip(with_default, arguments.defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        for argument, default in pairs:
            if isinstance(default, ast.Constant):
                defaults[argument.arg] = default.value
    return defaults


def _role_expression(node: ast.AST) -> ast.expr | None:
    """Return the expression of the role that a node asks for; None if it asks for none, or names another model."""
    if isinstance(node, ast.Subscript) and _calls(node.value, "model_roles"):
        return node.slice
    if not isinstance(node, ast.Call):
        return None
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    if _calls(node, "get_model"):
        others = [*node.args[:1], keywords.get("model"), keywords.get("default")]
        has_other_model = any(
            isinstance(other, ast.Constant) and other.value is not None for other in others
        )
        return None if has_other_model else keywords.get("role")
    function = node.func
    if not isinstance(function, ast.Attribute) or function.attr != "get" or not node.args:
        return None
    return node.args[0] if _calls(function.value, "model_roles") else None


def _calls(node: ast.AST, name: str) -> bool:
    """Return whether a node is a call of the function ``name``."""
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return bool(called == name)
