"""``modify_tools``: removes and adds properties in the schemas of tools."""

import copy
from dataclasses import dataclass
from typing import Any

from nemo_evaluator.adapters import base
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelRequest


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Strips ``strip_properties`` (also from ``required``) and adds ``add_properties`` where they are missing."""

    strip_properties: list[str] | None = None
    add_properties: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.strip_properties and not self.add_properties:
            raise UsageError(
                "interceptor 'modify_tools' does nothing",
                hint="give strip_properties or add_properties, or remove it",
            )
        self._strip = frozenset(self.strip_properties or ())
        self._add = dict(self.add_properties or {})

    def on_request(self, request: ModelRequest) -> None:
        """Change the schemas of the tools in a request."""
        tools = request.body.get("tools")
        if isinstance(tools, list) and tools:
            request.body = {**request.body, "tools": [self._tool(tool) for tool in tools]}

    def _tool(self, tool: Any) -> Any:
        if not isinstance(tool, dict):
            return tool
        function = tool.get("function")
        if isinstance(function, dict):
            return {**tool, "function": self._function(function)}
        return self._function(tool)

    def _function(self, function: JsonDict) -> JsonDict:
        """Remove and add properties in the parameters of one function."""
        parameters = function.get("parameters")
        if not isinstance(parameters, dict):
            return function
        properties = parameters.get("properties")
        if not isinstance(properties, dict):
            return function
        new_properties: JsonDict = {}
        for name, schema in properties.items():
            if name not in self._strip:
                new_properties[name] = schema
        for name, schema in self._add.items():
            new_properties.setdefault(name, copy.deepcopy(schema))
        new_parameters = {**parameters, "properties": new_properties}
        required = parameters.get("required")
        if isinstance(required, list):
            new_parameters["required"] = [name for name in required if name not in self._strip]
        return {**function, "parameters": new_parameters}
