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
    """The schema that the parameters of a class or function make: names, types and defaults."""
    if isinstance(build, type):
        made = vars(build).get("__init__", build)
    else:
        made = build
    parameters = inspect.signature(build).parameters.values()
    try:
        types = get_type_hints(made, include_extras=True)
    except NameError:
        # A type that is imported for checkers only: the value is taken as it is.
        types = {}
    keyword: list[inspect.Parameter] = []
    for p in parameters:
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in supplied:
            keyword.append(p)
    fields: dict[str, Any] = {}
    for p in keyword:
        fields[p.name] = (types.get(p.name, Any), ... if p.default is p.empty else p.default)
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    name = getattr(build, "__qualname__", "Settings").replace(".", "")
    return create_model(
        f"{name}Settings", __base__=_AnySettings if takes_all else _Settings, **fields
    )
