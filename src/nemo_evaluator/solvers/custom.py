"""``type: custom``: a solver of the user's own, by class path."""

import inspect
from typing import Any, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import AnyServiceName, Name, Options
from nemo_evaluator.config.solver_base import SolverBase
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.hashing import digest_parts
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.local_sources import imported_sources
from nemo_evaluator.core.registry import did_you_mean, find_file, load_object
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.solvers.base import MODEL, SolverContext


class CustomSolverConfig(SolverBase):
    """A solver of your own."""

    type: Literal["custom"] = "custom"
    service: AnyServiceName | None = Field(None, description="The model, if the solver uses one.")
    class_path: Name = Field(
        description="The class, as `package.module:Name`, or `file.py:Name` beside the config."
    )
    config: Options = Field(default_factory=dict, description="Its settings.")


class CustomSolver:
    """The user's solver, with its settings in the fingerprint: other settings, other answers."""

    def __init__(self, inner: Any, class_path: str, settings: JsonDict) -> None:
        self.inner = inner
        self._class_path = class_path
        self._settings = settings
        for name in ("solve", "needs", "close"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))

    def describe(self) -> JsonDict:
        if hasattr(self.inner, "describe"):
            own: Any | dict[Any, Any] = self.inner.describe()
        else:
            own = {}
        described = {
            "type": "custom",
            "class_path": self._class_path,
            "config": self._settings,
            **own,
        }
        file = self._class_path.partition(":")[0]
        if file.endswith(".py"):
            # A file changes without a new version: its text is part of what answers.
            path = find_file(file)
            described["source"] = digest_parts(path.read_text(encoding="utf-8", errors="replace"))[
                :16
            ]
            # A new version of a library does not ask paid questions again.
            imported = imported_sources([path]).files_digest()
            if imported:
                described["imported"] = imported[:16]
        return described


def build(config: CustomSolverConfig, context: SolverContext) -> CustomSolver:
    """The class, made with the settings of ``config`` and, if it names a ``client``, a client of ``service``.

    Raises UsageError when the class cannot be had, does not take the settings, or has no ``async solve``.
    """
    kind = load_object(config.class_path)
    if not callable(kind):
        raise UsageError(f"{config.class_path} is not a class or a function")
    parameters = inspect.signature(kind).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    settings = dict(config.config)
    if config.service is not None:
        outside = MODEL in getattr(kind, "needs", ())
        if "client" in parameters or takes_all:
            settings["client"] = context.clients[config.service]
        elif not outside:
            said = f"{config.class_path} takes no client, but the solver names the service {config.service!r}"
            hint = (
                'add a `client` parameter to the class, or needs = ("model",), or remove `service`'
            )
            raise UsageError(said, hint=hint)
    if takes_all:
        unknown: list[str] = []
    else:
        unknown = [name for name in settings if name not in parameters]
    if unknown:
        hint = did_you_mean(
            unknown[0], parameters, f"it takes: {', '.join(parameters) or 'nothing'}"
        )
        raise UsageError(f"{config.class_path} does not take {unknown[0]!r}", hint=hint)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed: list[str] = []
    for name, one in parameters.items():
        if one.default is one.empty and one.kind in named:
            needed.append(name)
    missing = [name for name in needed if name not in settings]
    if missing:
        if missing == ["client"]:
            hint = "name a `service`"
        else:
            hint = "put it under `config`"
        raise UsageError(f"{config.class_path} needs {', '.join(missing)}", hint=hint)
    solver = kind(**settings)
    if not inspect.iscoroutinefunction(getattr(solver, "solve", None)):
        raise UsageError(f"{config.class_path} has no `async def solve(self, task)`")
    return CustomSolver(solver, config.class_path, dict(config.config))


KIND: Final = Kind(CustomSolverConfig, build)
