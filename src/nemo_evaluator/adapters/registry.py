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
    """Names for interceptors of this process: a class by decorator, or a module that has a class ``Interceptor``.

    ::

        @InterceptorRegistry.register("shout")
        class Shout(RequestInterceptor): ...

        InterceptorRegistry.register("shout", "my_package.shout")
    """

    @staticmethod
    def register(name: str, target: str | None = None) -> Callable[[C], C]:
        """Register a module path, or the decorated class; later registrations win."""
        if target is not None:
            INTERCEPTORS.add(
                name, target if ":" in target else f"{target}:Interceptor", replace=True
            )

        def decorate(kind: C) -> C:
            INTERCEPTORS.add(name, Kind(build=kind), replace=True)
            return kind

        return decorate


def build_stage(spec: StageSpec, base_dir: Path | None = None) -> Interceptor:
    """The stage of a spec: a registered name, ``module:Class``, or a Python file beside the config."""
    kind = _find(spec.name, base_dir)
    if not (isinstance(kind, type) and issubclass(kind, (Interceptor, StagedInterceptor))):
        raise UsageError(
            f"{spec.name!r} is not an interceptor",
            hint="derive the class from nemo_evaluator.adapters.Interceptor",
        )
    _check(spec, kind)
    made = kind(**spec.config)
    if isinstance(made, Interceptor):
        return made
    return adapted(made)


def _find(name: str, base_dir: Path | None) -> Any:
    file, _, attribute = name.partition(":")
    if file.endswith(".py"):
        return load_from_file(file, attribute or "Interceptor", base_dir)
    if ":" in name:
        return load_object(name)
    return INTERCEPTORS.get(name).builder()


def _check(spec: StageSpec, kind: Any) -> None:
    """Every setting must be one that the stage takes, and every one that it needs must be there."""
    schema = settings_of(kind)
    try:
        schema.model_validate(spec.config)
    except ValidationError as error:
        item = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, item["loc"]))
        words = {
            "extra_forbidden": f"has no setting {key!r}",
            "missing": f"needs the setting {key!r}",
        }
        said = words.get(
            item["type"], f"has a wrong {key}: {item['msg'][:1].lower()}{item['msg'][1:]}"
        )
        hint = f"it takes: {', '.join(schema.model_fields) or 'nothing'}"
        raise UsageError(f"interceptor {spec.name!r} {said}", hint=hint) from None
