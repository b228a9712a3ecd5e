"""The base of all schema classes, which refuses unknown keys, and field types with their validation."""

import ipaddress
import re
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializationInfo,
)
from pydantic import WithJsonSchema as _WithJsonSchema
from pydantic_core import PydanticCustomError

from nemo_evaluator.core.kinds import NOT_YET
from nemo_evaluator.core.lazy import without_plugins
from nemo_evaluator.core.secret_masks import masked_config
from nemo_evaluator.core.secrets import MASK, Secret, looks_secret, remember_named
from nemo_evaluator.core.shell import control_character, is_env_name, mount_problem

SERVICE_PROTOCOLS = ("chat_completions", "completions", "responses")
Protocol = Literal["chat_completions", "completions", "responses"]
PROTOCOL_OF_PATH: dict[str, Protocol] = {
    "/chat/completions": "chat_completions",
    "/completions": "completions",
    "/responses": "responses",
}

# Dump context for fingerprints: it includes headers, because they may change the answers, and is never shown.
FOR_FINGERPRINT = {"for": "fingerprint"}

_SIZE = re.compile(r"\d+(\.\d+)?\s*([kmgt]i?)?b?", re.IGNORECASE)


class Model(BaseModel):
    """Base of every schema class."""

    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        protected_namespaces=(),
        defer_build=True,
        # An error must not repeat a value that may be a secret.
        hide_input_in_errors=True,
    )

    @classmethod
    def model_rebuild(cls, **options: Any) -> bool | None:
        """Build the schema: on first use, and without a search for plugins."""
        with without_plugins():
            return super().model_rebuild(**options, _types_namespace={})


def no_items() -> list[Any]:
    """Return the default of a list field.

    With ``list`` itself as the default factory, pydantic would inspect its signature: 10 ms on every start.
    """
    return []


def _no_bool(value: Any) -> Any:
    # Python would treat YAML's true as 1.
    if isinstance(value, bool):
        raise PydanticCustomError("number_expected", "a number is expected, not true or false")
    return value


def _secret(value: Any) -> Secret:
    if isinstance(value, Secret):
        return value
    if isinstance(value, str):
        return Secret(value)
    raise PydanticCustomError("string_type", "a string is expected")


def _remember_secrets(values: dict[str, Any]) -> dict[str, Any]:
    remember_named(values)
    return values


def _env_names(values: dict[str, str]) -> dict[str, str]:
    """Check the names and values of environment variables."""
    for name, text in values.items():
        if not is_env_name(name):
            message = (
                "{name} cannot be the name of an environment variable: use letters, digits and _"
            )
            raise PydanticCustomError("bad_env_name", message, {"name": ascii(name)})
        character = control_character(text, lines=True)
        if character is not None:
            message = "the value of {name} holds the character {character}"
            raise PydanticCustomError(
                "bad_env_value", message, {"name": name, "character": character}
            )
    return values


def _line(value: str) -> str:
    character = control_character(value)
    if character is not None:
        message = "must be one line without control characters, and holds {character}"
        raise PydanticCustomError("control_character", message, {"character": character})
    return value


def _text(value: str) -> str:
    character = control_character(value, lines=True)
    if character is not None:
        message = "must not hold control characters, and holds {character}"
        raise PydanticCustomError("control_character", message, {"character": character})
    return value


def _argument(value: str) -> str:
    if value.startswith("-"):
        raise PydanticCustomError(
            "leading_dash", "must not begin with a dash, which a command takes for an option"
        )
    return _line(value)


def _mount(value: str) -> str:
    problem = mount_problem(value)
    if problem is not None:
        raise PydanticCustomError(
            "bad_mount", "{mount} {problem}", {"mount": ascii(value), "problem": problem}
        )
    return value


def _network(value: str) -> str:
    try:
        return str(ipaddress.IPv4Network(value))
    except ValueError as error:
        raise PydanticCustomError(
            "bad_network", 'a network such as "10.1.0.0/16" is expected'
        ) from error


def _mount_path(value: str) -> str:
    if ":" in value or "," in value:
        raise PydanticCustomError("bad_mount", "a path of a mount must not hold a colon or a comma")
    return _argument(value)


def _mask_variables(values: dict[str, Any]) -> Any:
    return masked_config(values, [], ("env",))


def _mask_headers(values: dict[str, str], info: SerializationInfo) -> Any:
    if info.context == FOR_FINGERPRINT:
        # A header may select the model or its version; a key does not change the answers.
        return {name: MASK if looks_secret(name) else text for name, text in values.items()}
    return masked_config(values, [], ("headers",))


def _mask_options(values: dict[str, Any]) -> Any:
    return masked_config(values, [])


def _regex(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise PydanticCustomError(
            "bad_regex", "not a regular expression: {why}", {"why": str(error)}
        ) from error
    return value


def _url(value: str) -> str:
    """Check that a URL is HTTP and contains no user name or password."""
    try:
        url = urlsplit(value)
        has_user = url.username is not None or url.password is not None
        is_http = url.scheme in ("http", "https") and bool(url.hostname)
        is_valid = is_http and (url.port is None or url.port > 0)
    except ValueError:
        has_user = False
        is_valid = False
    if has_user:
        message = "a URL must not hold a user name or password: give the key as api_key, or as a header under "
        message += "proxy.extra_headers, from an environment variable"
        raise PydanticCustomError("url_with_password", message)
    if not is_valid:
        raise PydanticCustomError(
            "bad_url", "a URL that starts with http:// or https:// is expected"
        )
    return value


def protocol_of_url(url: str) -> Protocol | None:
    """Return the protocol that the path of a URL implies; None if it implies none."""
    try:
        path = urlsplit(url).path.rstrip("/")
    except ValueError:
        return None
    for ending, protocol in PROTOCOL_OF_PATH.items():
        if path.endswith(ending):
            return protocol
    return None


def _size(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return str(value)
    if isinstance(value, str) and not _SIZE.fullmatch(value.strip()):
        raise PydanticCustomError("bad_size", 'a size such as "512m" or "4g" is expected')
    return value


def _number_as_text(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


# Placed last in annotations, so that the JSON Schema keeps the bounds before it.
NotBool = BeforeValidator(_no_bool)
Int = Annotated[int, NotBool]
Count = Annotated[int, Field(ge=0, le=2**53), NotBool]
Positive = Annotated[int, Field(ge=1, le=2**53), NotBool]
Port = Annotated[int, Field(ge=1, le=65535), NotBool]
Number = Annotated[float, NotBool]
NonNegative = Annotated[float, Field(ge=0), NotBool]
# Default timeout of one step, in seconds.
STEP_TIMEOUT = 1800.0
Above0 = Annotated[float, Field(gt=0), NotBool]
Share = Annotated[float, Field(ge=0, le=1), NotBool]
Temperature = Annotated[float, Field(ge=0, le=2), NotBool]
Penalty = Annotated[float, Field(ge=-2, le=2), NotBool]
Confidence = Annotated[float, Field(ge=0.5, lt=1), NotBool]
Name = Annotated[str, Field(min_length=1)]
# Texts for scripts and commands: one line, several lines, an argument that is not an option, a mount.
Line = Annotated[str, AfterValidator(_line)]
LineName = Annotated[str, Field(min_length=1), AfterValidator(_line)]
ShellText = Annotated[str, AfterValidator(_text)]
Argument = Annotated[str, Field(min_length=1), AfterValidator(_argument)]
Mount = Annotated[str, AfterValidator(_mount)]
MountPath = Annotated[str, AfterValidator(_mount_path)]
# The path of a URL, with characters that need no quotes in commands and HAProxy configurations.
UrlPath = Annotated[str, Field(pattern=r"^/[A-Za-z0-9_.~!&()*+,;=:@%/?-]*$")]
NetworkRange = Annotated[str, AfterValidator(_network)]
HashPrefix = Annotated[str, Field(pattern="^[0-9a-f]{4,64}$")]
Regex = Annotated[str, AfterValidator(_regex)]
Url = Annotated[str, AfterValidator(_url)]
Size = Annotated[str, BeforeValidator(_size)]
Digits = Annotated[str, BeforeValidator(_number_as_text)]
SecretText = Annotated[
    Secret,
    PlainValidator(_secret),
    PlainSerializer(str, return_type=str),
    _WithJsonSchema({"type": "string", "format": "password"}),
]
# Mappings whose secrets are masked wherever the config is written.
EnvMap = Annotated[
    dict[str, str],
    AfterValidator(_env_names),
    AfterValidator(_remember_secrets),
    PlainSerializer(_mask_variables),
]
HeaderMap = Annotated[
    dict[str, str], AfterValidator(_remember_secrets), PlainSerializer(_mask_headers)
]
Options = Annotated[
    dict[str, Any], AfterValidator(_remember_secrets), PlainSerializer(_mask_options)
]

Role = Literal["model", "gym", "agent", "any"]


class Refers(NamedTuple):
    """Marks a field that names a service: the role that the service must have, and whether it judges."""

    role: Role
    judges: bool = False


class NotYet(NamedTuple):
    """Marks a setting that this version accepts but does not support."""

    reason: str = NOT_YET


ServiceName = Annotated[str, Field(min_length=1), Refers("model")]
JudgeName = Annotated[str, Field(min_length=1), Refers("model", judges=True)]
GymName = Annotated[str, Field(min_length=1), Refers("gym")]
AgentName = Annotated[str, Field(min_length=1), Refers("agent")]
AnyServiceName = Annotated[str, Field(min_length=1), Refers("any")]

_T = TypeVar("_T")
# A setting that is accepted but not supported yet.
Later: TypeAlias = Annotated[_T | None, NotYet()]
