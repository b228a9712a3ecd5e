"""The interceptors by name, and how a stage is built from its name and settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from nemo_evaluator.adapters.base import Interceptor
from nemo_evaluator.adapters.types import StagedInterceptor, adapted
from nemo_evaluator.config.groups import INTERCEPTORS
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.parameters import settings_of
from nemo_evaluator.core.registry import load_from_file, load_object
from nemo_evaluator.models.endpoint import StageSpec

interceptor_registry: Final = INTERCEPTORS
C = TypeVar("C", bound=type)


class InterceptorRegistry:
    """Names for the interceptors of this process: for a decorated class, or a module with a class ``Interceptor``.

    ::

        @InterceptorRegistry.register("shout")
        class Shout(RequestInterceptor): ...

        InterceptorRegistry.register("shout", "my_package.shout")
    """

    @staticmethod
    def register(name: str, target: str | None = None) -> Callable[[C], C]:
        """Register an interceptor; later registrations win.

        Args:
            name: The name for configs.
            target: A module, or ``module:Class``; None to use the returned decorator.
        """
        if target is not None:
            path = target if ":" in target else f"{target}:Interceptor"
            INTERCEPTORS.add(name, path, replace=True)

        def decorate(kind: C) -> C:
            INTERCEPTORS.add(name, Kind(build=kind), replace=True)
            return kind

        return decorate


def build_stage(spec: StageSpec, base_dir: Path | None = None) -> Interceptor:
    """Build a stage.

    Args:
        spec: Its name (a registered name, ``module:Class``, or a Python file) and its settings.
        base_dir: The folder of the config, for Python files.

    Raises:
        UsageError: The name is not an interceptor, or a setting is unknown, wrong or missing.
    """
    kind = _find(spec.name, base_dir)
    if not (isinstance(kind, type) and issubclass(kind, (Interceptor, StagedInterceptor))):
        raise UsageError(
            f"{spec.name!r} is not an interceptor",
            hint="derive the class from nemo_evaluator.adapters.Interceptor",
        )
    _check(spec, kind)
    stage = kind(**spec.config)
    if isinstance(stage, Interceptor):
        return stage
    return adapted(stage)


def _find(name: str, base_dir: Path | None) -> Any:
    file, _, attribute = name.partition(":")
    if file.endswith(".py"):
        return load_from_file(file, attribute or "Interceptor", base_dir)
    if ":" in name:
        return load_object(name)
    return INTERCEPTORS.get(name).builder()


def _check(spec: StageSpec, kind: Any) -> None:
    """Raise UsageError for the first setting that is unknown, wrong or missing."""
    schema = settings_of(kind)
    try:
        schema.model_validate(spec.config)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, problem["loc"]))
        if problem["type"] == "extra_forbidden":
            text = f"has no setting {key!r}"
        elif problem["type"] == "missing":
            text = f"needs the setting {key!r}"
        else:
            reason = problem["msg"]
            text = f"has a wrong {key}: {reason[:1].lower()}{reason[1:]}"
        settings = ", ".join(schema.model_fields) or "nothing"
        raise UsageError(
            f"interceptor {spec.name!r} {text}", hint=f"it takes: {settings}"
        ) from None
