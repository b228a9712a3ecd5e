"""The parameters of a class or function as a schema of settings."""

import inspect
from functools import lru_cache
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model


class _Settings(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        arbitrary_types_allowed=True,
        protected_namespaces=(),
        hide_input_in_errors=True,
        defer_build=True,
    )


class _AnySettings(_Settings):
    model_config = ConfigDict(extra="allow")


@lru_cache(maxsize=256)
def settings_of(build: Any, supplied: tuple[str, ...] = ()) -> type[BaseModel]:
    """Create a schema of settings from the parameters of a class or function: names, types and defaults.

    Args:
        build: The class or function.
        supplied: Parameters that are not settings, because the caller supplies them.

    Returns:
        The model. It forbids other settings unless ``build`` takes any keyword.
    """
    if isinstance(build, type):
        function = vars(build).get("__init__", build)
    else:
        function = build
    parameters = inspect.signature(build).parameters.values()
    try:
        types = get_type_hints(function, include_extras=True)
    except NameError:
        # A type that is imported for checkers only: the value is taken as it is.
        types = {}
    accepted_parameters: list[inspect.Parameter] = []
    for parameter in parameters:
        if (
            parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            and parameter.name not in supplied
        ):
            accepted_parameters.append(parameter)
    fields: dict[str, Any] = {}
    for parameter in accepted_parameters:
        fields[parameter.name] = (
            types.get(parameter.name, Any),
            ... if parameter.default is parameter.empty else parameter.default,
        )
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    name = getattr(build, "__qualname__", "Settings").replace(".", "")
    return create_model(
        f"{name}Settings", __base__=_AnySettings if takes_all else _Settings, **fields
    )
