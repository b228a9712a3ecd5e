"""Fields that hold a kind: ``type`` selects the schema, which may come from nel or from a plugin."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, Union, get_args

from pydantic import (
    BaseModel,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
)
from pydantic.fields import FieldInfo
from pydantic_core import (
    CoreSchema,
    PydanticCustomError,
    PydanticKnownError,
    core_schema,
)

from nemo_evaluator.core.kinds import Kinds
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.values import dataclass

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class KindOf:
    """Marks a field that holds the settings of a kind of one group, or (``named``) the name of such settings."""

    kinds: Kinds
    named: bool = False

    def schemas(self) -> dict[str, type[BaseModel]]:
        """Return the schema of each kind, by its name."""
        return {name: self.kinds.schema(name) for name in self.kinds.names()}

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return a schema that validates a mapping by its ``type``, and accepts validated settings."""

        def validate(value: Any) -> Any:
            if isinstance(value, source):
                return value
            return self._validate(value)

        serialization = core_schema.simple_ser_schema("any")
        return core_schema.no_info_plain_validator_function(validate, serialization=serialization)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the JSON Schema of all kinds of the group, distinguished by ``type``."""
        members: Any = Union.__getitem__(tuple(dict.fromkeys(self.schemas().values())))
        union: TypeAdapter[Any] = TypeAdapter(Annotated[members, Field(discriminator="type")])
        json_schema = handler(union.core_schema)
        if self.named:
            return {"anyOf": [json_schema, {"type": "string"}]}
        return json_schema

    def _validate(self, value: Any) -> BaseModel:
        """Validate a mapping with the schema of its ``type``; the errors are pydantic's own for tagged unions."""
        if not isinstance(value, Mapping):
            raise PydanticKnownError("model_attributes_type")
        type_name = value.get("type")
        if type_name is None:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "'type'"})
        if not isinstance(type_name, str) or type_name not in self.kinds:
            context = {
                "discriminator": "'type'",
                "tag": str(type_name),
                "expected_tags": ", ".join(self.kinds.names()),
            }
            raise PydanticKnownError("union_tag_invalid", context)
        return self.kinds.schema(type_name).model_validate(value)


def default_kind(kinds: Kinds, word: str) -> Callable[[], Any]:
    """Return a factory for the default settings of the kind ``word``."""
    return lambda: kinds.schema(word)()


def whole(field: FieldInfo) -> Any:
    """Return the type of a field together with the metadata that pydantic stores separately."""
    if field.metadata:
        return Annotated[field.annotation, *field.metadata]
    return field.annotation


def parts(annotation: Any) -> Iterator[Any]:
    """Yield an annotation and all types and metadata inside it."""
    yield annotation
    for argument in get_args(annotation):
        yield from parts(argument)


def marks(model: type[BaseModel], mark: type[M] | type) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a schema whose type contains an instance of ``mark``, with that instance."""
    for name, field in model.model_fields.items():
        metadata = next((part for part in parts(whole(field)) if isinstance(part, mark)), None)
        if metadata is not None:
            yield name, metadata


def check_name(kinds: Kinds, name: str) -> None:
    """Raise a validation error for a name that is not a kind of the group."""
    if name not in kinds:
        context = {
            "kind": kinds.kind,
            "name": repr(name),
            "hint": did_you_mean(name, kinds.names()),
        }
        raise PydanticCustomError("unknown_name", "unknown {kind} {name}", context)


def with_settings(
    handler: GetJsonSchemaHandler,
    schema: CoreSchema,
    kinds: Kinds,
    word: str,
    settings: str,
    *,
    starts: str = "",
) -> dict[str, Any]:
    """Return the JSON Schema of a class with a field that names a kind and a field with that kind's settings.

    Args:
        handler: pydantic's handler.
        schema: The core schema of the class.
        kinds: The group of kinds.
        word: The field that names the kind.
        settings: The field with its settings.
        starts: Characters after the name, if the field only begins with the name.
    """
    json_schema = handler(schema)
    body = handler.resolve_ref_schema(json_schema)
    names = [name for name in kinds.names() if kinds.get(name).missing is None]
    body["properties"][word] = {
        **body["properties"][word],
        "examples": [f"{name}{starts}" for name in names],
    }
    rules: list[dict[str, object]] = []
    for name in names:
        if kinds.schema(name).model_fields:
            rules.append(
                {
                    "if": {
                        "properties": {word: {"pattern": f"^{name}{starts or '$'}"}},
                        "required": [word],
                    },
                    "then": {
                        "properties": {
                            settings: handler(kinds.schema(name).__pydantic_core_schema__)
                        }
                    },
                }
            )
    if rules:
        body["allOf"] = rules
    return json_schema
