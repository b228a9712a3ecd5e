"""The JSON Schema of a config file, for editors: completion, descriptions, red lines while typing."""

from typing import Any

from nemo_evaluator.config.eval_config import EvalConfig
from nemo_evaluator.config.playbooks import playbook_names

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = {"type": "string", "pattern": r"\$\{.+\}", "description": "A reference, such as ${VARIABLE}."}


def config_schema() -> dict[str, Any]:
    """What a config file may hold, composition keys and ``${...}`` references included."""
    schema = EvalConfig.model_json_schema(mode="validation")
    _allow_references(schema)
    # A file that builds on others need not hold everything itself.
    schema.pop("required", None)
    benchmark = schema["$defs"]["BenchmarkConfig"]
    benchmark["properties"]["playbook"] = {
        "description": "Playbook that this entry builds on.",
        "anyOf": [{"enum": playbook_names()}, {"type": "string"}],
    }
    benchmark.pop("required", None)
    schema["properties"]["defaults"] = {
        "description": "Files that this one builds on: group/name, _base_: name, _self_.",
        "type": "array",
        "items": {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"_base_": {"type": "string"}},
                    "required": ["_base_"],
                    "additionalProperties": False,
                },
            ]
        },
    }
    schema["patternProperties"] = {"^_": {"description": "A variable, used as ${._name}."}}
    return {"$schema": DIALECT, "title": "nel evaluation config", **{k: v for k, v in schema.items() if k != "title"}}


def _allow_references(node: Any) -> None:
    """Wherever a number or a switch is expected, ``${VARIABLE}`` is right too."""
    if isinstance(node, list):
        for item in node:
            _allow_references(item)
        return
    if not isinstance(node, dict):
        return
    for key, value in list(node.items()):
        if key in ("default", "enum", "const", "examples", "discriminator"):
            continue
        if isinstance(value, dict) and value.get("type") in ("integer", "number", "boolean"):
            about = {name: value.pop(name) for name in ("title", "description", "default") if name in value}
            node[key] = {**about, "anyOf": [value, _REFERENCE]}
        elif key == "anyOf" and isinstance(value, list):
            if any(isinstance(one, dict) and one.get("type") in ("integer", "number", "boolean") for one in value):
                value.append(_REFERENCE)
        else:
            _allow_references(value)
