"""The schema of a config file, as JSON Schema for editors and as Markdown tables for people."""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from nemo_evaluator.config._schema_walk import kinds, literal_words
from nemo_evaluator.config.cluster_base import ClusterBase
from nemo_evaluator.config.compose import playbook_names
from nemo_evaluator.config.eval_config import EvalConfig
from nemo_evaluator.config.fields import Model
from nemo_evaluator.config.kinds import KindOf, parts, whole
from nemo_evaluator.config.sandbox_base import SandboxBase
from nemo_evaluator.config.scoring import MetricBase
from nemo_evaluator.config.service_base import ServiceBase
from nemo_evaluator.config.solver_base import SolverBase
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.core.secrets import Secret

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NOT_TEXT = ("integer", "number", "boolean")
_DATA = Path(__file__).parent / "data"


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of a config file, including composition keys and ``${...}`` references."""
    schema = EvalConfig.model_json_schema(mode="validation")
    composition = yaml.safe_load((_DATA / "composition.yaml").read_text(encoding="utf-8"))
    _allow_references(schema, composition["reference"])
    benchmark = schema["$defs"]["BenchmarkConfig"]
    # A file that builds on others need not contain the required keys itself.
    for part in (schema, benchmark):
        part.pop("required", None)
    composition["playbook"]["anyOf"][0]["enum"] = playbook_names()
    benchmark["properties"]["playbook"] = composition["playbook"]
    schema["properties"]["defaults"] = composition["defaults"]
    schema["patternProperties"] = composition["variables"]
    return {
        "$schema": DIALECT,
        "title": "nel evaluation config",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def _allow_references(node: Any, reference: dict[str, Any]) -> None:
    """Allow ``${VARIABLE}`` wherever a number or boolean is expected."""
    if isinstance(node, list):
        for item in node:
            _allow_references(item, reference)
    if not isinstance(node, dict):
        return
    for key, value in list(node.items()):
        if key in ("default", "enum", "const", "examples", "discriminator"):
            continue
        if _is_number_or_boolean(value):
            annotations: dict[str, Any] = {}
            for name in ("title", "description", "default"):
                if name in value:
                    annotations[name] = value.pop(name)
            node[key] = {**annotations, "anyOf": [value, reference]}
        elif key == "anyOf" and isinstance(value, list):
            if any(_is_number_or_boolean(alternative) for alternative in value):
                value.append(reference)
        else:
            _allow_references(value, reference)


def _is_number_or_boolean(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") in _NOT_TEXT


_PLAIN = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true/false",
    Secret: "secret",
    Any: "anything",
}
_NOUNS: dict[type[BaseModel], str] = {
    ServiceBase: "service",
    SolverBase: "solver",
    MetricBase: "metric",
    SandboxBase: "sandbox",
    ClusterBase: "cluster",
}
# Packages in the order of the sections of the page.
_PACKAGES = (
    "config.eval_config",
    "config.service_base",
    "config.managed_service",
    "services",
    "config.traffic",
    "config.benchmarks",
    "config.solver_base",
    "solvers",
    "config.scoring",
    "scoring",
    "config.sandbox_base",
    "sandbox",
    "config.cluster_base",
    "executors",
    "config.output",
)


def reference_markdown() -> str:
    """Return the config reference page: a section for each schema class, grouped by package."""
    # Imported here, because nothing else in this package needs Jinja.
    environment = load_object("jinja2:Environment")(trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string((_DATA / "config-reference.md.j2").read_text(encoding="utf-8"))
    functions = {
        "title": title,
        "about": _about,
        "own_fields": _own_fields,
        "shared": _shared,
        "default": _default,
    }
    text: str = page.render(
        models=schema_classes(), type_words=lambda field: type_words(whole(field)), **functions
    )
    return text.rstrip("\n")


def schema_classes() -> list[type[BaseModel]]:
    """Return every schema class that a config can contain, starting with the whole config."""
    classes: list[type[BaseModel]] = []
    queue: list[type[BaseModel]] = [EvalConfig]
    while queue:
        model = queue.pop(0)
        if model not in classes:
            classes.append(model)
            for field in model.model_fields.values():
                for inner in _models(whole(field)):
                    queue.append(inner)
            queue += _shared(model)
    return [EvalConfig, *sorted(classes[1:], key=_order)]


def _order(model: type[BaseModel]) -> tuple[int, bool, str]:
    section = len(_PACKAGES)
    for index, package in enumerate(_PACKAGES):
        if f".{package}" in model.__module__:
            section = index
            break
    return section, bool(_words(model)), title(model)


def _shared(model: type[BaseModel]) -> list[type[BaseModel]]:
    """Return the base class whose fields this class inherits, if there is one."""
    return [base for base in model.__bases__ if issubclass(base, Model) and base is not Model]


def title(model: type[BaseModel]) -> str:
    """Return the heading of a class: its ``type`` if it is a kind, otherwise its name."""
    types = _words(model)
    if not types:
        return f"`{model.__name__}`"
    noun = ""
    for base, base_noun in _NOUNS.items():
        if issubclass(model, base):
            noun = base_noun
            break
    return f"{noun} `{'` / `'.join(types)}`"


def _words(model: type[BaseModel]) -> list[str]:
    if "type" in model.model_fields:
        return literal_words(model.model_fields["type"].annotation)
    return []


def _about(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split()).partition(". Make one with")[0].rstrip(".") + "."


def _own_fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    own_fields: dict[str, FieldInfo] = {}
    for name in model.__annotations__:
        if name in model.model_fields and name != "type":
            own_fields[name] = model.model_fields[name]
    return own_fields


def _default(field: FieldInfo) -> str:
    """Return the default of a field as Markdown."""
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value is PydanticUndefined:
        return "null"
    if isinstance(value, BaseModel):
        set_fields = value.model_dump(exclude_unset=True)
        if set_fields:
            return f"`{set_fields}`".replace("'", "")
        return "defaults"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, float) and value.is_integer():
        return f"`{int(value)}`"
    if value != "":
        return f"`{value}`".replace("'", "")
    return '`""`'


def type_words(annotation: Any) -> str:
    """Describe a type in plain words.

    Args:
        annotation: The type of a field.

    Returns:
        Markdown, with a link for a schema class.
    """
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    is_union = origin in (Union, types.UnionType)
    if (is_union or origin is Annotated) and kinds(annotation):
        return "mapping with `type`"
    if origin is Annotated:
        return type_words(arguments[0])
    if origin is Literal:
        return " \\| ".join(f"`{choice}`" for choice in arguments)
    if is_union:
        return _alternatives(arguments)
    if origin is list:
        return f"list of {type_words(arguments[0])}"
    if origin is tuple:
        return f"list of {', '.join(map(type_words, arguments))}"
    if origin is dict:
        inner = type_words(arguments[1])
        return "mapping" if inner == "anything" else f"mapping of {inner}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[`{annotation.__name__}`](#{annotation.__name__.lower()})"
    return _PLAIN.get(annotation, str(annotation))


def _alternatives(members: tuple[Any, ...]) -> str:
    """Describe the members of a union, without null."""
    descriptions: list[str] = []
    for member in members:
        if member is type(None):
            continue
        description = type_words(member)
        if description not in descriptions:
            descriptions.append(description)
    return " or ".join(descriptions)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    for part in parts(annotation):
        if isinstance(part, KindOf):
            yield from part.schemas().values()
        elif isinstance(part, type) and issubclass(part, BaseModel):
            yield part
