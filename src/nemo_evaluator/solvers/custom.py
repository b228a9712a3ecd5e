"""``type: custom``: a solver written by the user, loaded by class path."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

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

Parameters: TypeAlias = Mapping[str, inspect.Parameter]
_NAMED_KINDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


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
        description: JsonDict = {
            "type": "custom",
            "class_path": self._class_path,
            "config": self._settings,
        }
        if hasattr(self.inner, "describe"):
            description |= self.inner.describe()
        file = self._class_path.partition(":")[0]
        if file.endswith(".py"):
            # A file changes without a new version, so its text is part of the fingerprint.
            path = find_file(file)
            source = path.read_text(encoding="utf-8", errors="replace")
            description["source"] = digest_parts(source)[:16]
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
    class_path = config.class_path
    solver_class = load_object(class_path)
    if not callable(solver_class):
        raise UsageError(f"{class_path} is not a class or a function")
    parameters = inspect.signature(solver_class).parameters
    settings = dict(config.config)
    if config.service is not None and _takes_client(config, solver_class, parameters):
        settings["client"] = context.clients[config.service]
    _check_settings(class_path, settings, parameters)
    solver = solver_class(**settings)
    if not inspect.iscoroutinefunction(getattr(solver, "solve", None)):
        raise UsageError(f"{class_path} has no `async def solve(self, task)`")
    return CustomSolver(solver, class_path, dict(config.config))


def _takes_any_keyword(parameters: Parameters) -> bool:
    kinds = {parameter.kind for parameter in parameters.values()}
    return inspect.Parameter.VAR_KEYWORD in kinds


def _takes_client(
    config: CustomSolverConfig, solver_class: Callable[..., Any], parameters: Parameters
) -> bool:
    """Return whether the class takes a client; False when it takes the model's URL and key instead.

    Raises:
        UsageError: The class takes neither, so the service that the config names would not be used.
    """
    if "client" in parameters or _takes_any_keyword(parameters):
        return True
    if MODEL in getattr(solver_class, "needs", ()):
        return False
    raise UsageError(
        f"{config.class_path} takes no client, but the solver names the service {config.service!r}",
        hint='add a `client` parameter to the class, or needs = ("model",), or remove `service`',
    )


def _check_settings(class_path: str, settings: JsonDict, parameters: Parameters) -> None:
    """Check the names of the settings against the parameters of the class.

    Raises:
        UsageError: The class does not take a setting, or a required parameter has no setting.
    """
    if not _takes_any_keyword(parameters):
        for name in settings:
            if name not in parameters:
                valid_names = f"it takes: {', '.join(parameters) or 'nothing'}"
                hint = did_you_mean(name, parameters, valid_names)
                raise UsageError(f"{class_path} does not take {name!r}", hint=hint)
    missing = [name for name in _required_names(parameters) if name not in settings]
    if missing:
        hint = "put it under `config`"
        if missing == ["client"]:
            hint = "name a `service`"
        raise UsageError(f"{class_path} needs {', '.join(missing)}", hint=hint)


def _required_names(parameters: Parameters) -> list[str]:
    """Return the names of the parameters that have no default; ``*args`` and ``**kwargs`` do not count."""
    required = []
    for name, parameter in parameters.items():
        if parameter.kind in _NAMED_KINDS and parameter.default is parameter.empty:
            required.append(name)
    return required


KIND: Final = Kind(CustomSolverConfig, build)
