"""Fields that hold a kind: the value of ``type`` chooses the schema, of nel's own kinds and those of third parties."""

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
    """Annotation of a field that holds the settings of a kind of one group, or (``named``) the name of such a block."""

    kinds: Kinds
    named: bool = False

    def schemas(self) -> dict[str, type[BaseModel]]:
        """Every word with its schema."""
        return {word: self.kinds.schema(word) for word in self.kinds.names()}

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def validate(value: Any) -> Any:
            if isinstance(value, source):
                return value
            return self._validate(value)

        shown = core_schema.simple_ser_schema("any")
        return core_schema.no_info_plain_validator_function(validate, serialization=shown)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        members: Any = Union.__getitem__(tuple(dict.fromkeys(self.schemas().values())))
        union: TypeAdapter[Any] = TypeAdapter(Annotated[members, Field(discriminator="type")])
        described = handler(union.core_schema)
        if self.named:
            return {"anyOf": [described, {"type": "string"}]}
        return described

    def _validate(self, value: Any) -> BaseModel:
        if not isinstance(value, Mapping):
            raise PydanticKnownError("model_attributes_type")
        word = value.get("type")
        if word is None:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "'type'"})
        if not isinstance(word, str) or word not in self.kinds:
            context = {
                "discriminator": "'type'",
                "tag": str(word),
                "expected_tags": ", ".join(self.kinds.names()),
            }
            raise PydanticKnownError("union_tag_invalid", context)
        return self.kinds.schema(word).model_validate(value)


def default_kind(kinds: Kinds, word: str) -> Callable[[], Any]:
    """A factory for the default settings of a field: those of the kind ``word``."""
    return lambda: kinds.schema(word)()


def whole(field: FieldInfo) -> Any:
    """The type of a field with the annotations that pydantic keeps apart."""
    if field.metadata:
        return Annotated[field.annotation, *field.metadata]
    return field.annotation


def parts(annotation: Any) -> Iterator[Any]:
    """An annotation and all that it is made of, marks included."""
    yield annotation
    for argument in get_args(annotation):
        yield from parts(argument)


def marks(model: type[BaseModel], mark: type[M] | type) -> Iterator[tuple[str, Any]]:
    """The fields of a schema that carry an annotation of a class, at any depth of their type."""
    for name, field in model.model_fields.items():
        found = next((one for one in parts(whole(field)) if isinstance(one, mark)), None)
        if found is not None:
            yield name, found


def check_name(kinds: Kinds, name: str) -> None:
    """Raise an error for a name that is not a kind of the group."""
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
    """The JSON Schema of a class whose field ``word`` names a kind and whose ``settings`` are that kind's.

    With ``starts`` the field only begins with the name and these characters.
    """
    described = handler(schema)
    body = handler.resolve_ref_schema(described)
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
    return described
