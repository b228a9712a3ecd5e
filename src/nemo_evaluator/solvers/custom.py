"""``type: custom``: a solver written by the user, loaded by class path."""

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
    """The user's solver, with its settings in the fingerprint, so that a change of settings invalidates cached answers.

    ``solve``, ``needs`` and ``close`` are those of the inner solver.

    Attributes:
        inner: The user's solver.
    """

    def __init__(self, inner: Any, class_path: str, settings: JsonDict) -> None:
        """Wrap a solver.

        Args:
            inner: The user's solver.
            class_path: Where its class comes from.
            settings: The settings that it was made with, without the client.
        """
        self.inner = inner
        self._class_path = class_path
        self._settings = settings
        for name in ("solve", "needs", "close"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))

    def describe(self) -> JsonDict:
        """Return the settings that change answers: class path, settings, and the inner solver's own description.

        For a class from a file, digests of the file and of the local files that it imports are included.
        """
        if hasattr(self.inner, "describe"):
            own_settings: Any | dict[Any, Any] = self.inner.describe()
        else:
            own_settings = {}
        description = {
            "type": "custom",
            "class_path": self._class_path,
            "config": self._settings,
            **own_settings,
        }
        file = self._class_path.partition(":")[0]
        if file.endswith(".py"):
            # A file changes without a new version, so its text is part of the fingerprint.
            path = find_file(file)
            description["source"] = digest_parts(
                path.read_text(encoding="utf-8", errors="replace")
            )[:16]
            # Only local files count: a new version of a library must not invalidate paid answers.
            imported_files = imported_sources([path]).files_digest()
            if imported_files:
                description["imported"] = imported_files[:16]
        return description


def build(config: CustomSolverConfig, context: SolverContext) -> CustomSolver:
    """Create the user's solver with the settings of the config.

    A ``client`` parameter of the class gets the client of ``service``.

    Args:
        config: The class path, its settings, and optionally a service.
        context: The clients of the config's services.

    Raises:
        UsageError: The class cannot be loaded, does not take the settings, or has no ``async solve``.
    """
    solver_class = load_object(config.class_path)
    if not callable(solver_class):
        raise UsageError(f"{config.class_path} is not a class or a function")
    parameters = inspect.signature(solver_class).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    settings = dict(config.config)
    if config.service is not None:
        takes_model_access = MODEL in getattr(solver_class, "needs", ())
        if "client" in parameters or takes_all:
            settings["client"] = context.clients[config.service]
        elif not takes_model_access:
            problem = f"{config.class_path} takes no client, but the solver names the service {config.service!r}"
            hint = (
                'add a `client` parameter to the class, or needs = ("model",), or remove `service`'
            )
            raise UsageError(problem, hint=hint)
    if takes_all:
        unknown: list[str] = []
    else:
        unknown = [name for name in settings if name not in parameters]
    if unknown:
        hint = did_you_mean(
            unknown[0], parameters, f"it takes: {', '.join(parameters) or 'nothing'}"
        )
        raise UsageError(f"{config.class_path} does not take {unknown[0]!r}", hint=hint)
    named_kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    required: list[str] = []
    for name, parameter_spec in parameters.items():
        if parameter_spec.default is parameter_spec.empty and parameter_spec.kind in named_kinds:
            required.append(name)
    missing = [name for name in required if name not in settings]
    if missing:
        if missing == ["client"]:
            hint = "name a `service`"
        else:
            hint = "put it under `config`"
        raise UsageError(f"{config.class_path} needs {', '.join(missing)}", hint=hint)
    solver = solver_class(**settings)
    if not inspect.iscoroutinefunction(getattr(solver, "solve", None)):
        raise UsageError(f"{config.class_path} has no `async def solve(self, task)`")
    return CustomSolver(solver, config.class_path, dict(config.config))


KIND: Final = Kind(CustomSolverConfig, build)
