"""``type: custom``: a service of your own."""

from typing import ClassVar, Final, Literal, cast

from pydantic import Field

from nemo_evaluator.config.fields import Name, Options, Role
from nemo_evaluator.config.service_base import ModelService
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services.base import ServiceKind, Site


class CustomService(ModelService):
    """A service of your own: a class that plans how it is started."""

    type: Literal["custom"] = "custom"
    role: ClassVar[Role] = "any"
    class_path: Name = Field(description="The class, as `package.module:Name`, or `file.py:Name`.")
    config: Options = Field(default_factory=dict, description="Its settings.")


class Custom:
    """Calls ``class_path(**config)``; the object follows the contract ``ServiceKind``."""

    def plan(self, name: str, service: CustomService, site: Site) -> Launch:
        """The plan of the class. Raises UsageError when that is not a Launch."""
        launch = _kind(service).plan(name, service, site)
        if not isinstance(launch, Launch):
            raise UsageError(
                f"{service.class_path}.plan must return a Launch, not a {type(launch).__name__}"
            )
        return launch

    def identity(self, service: CustomService) -> JsonDict:
        """The class, its settings, and what it names itself as changing answers."""
        own = _kind(service).identity(service)
        return {"type": "custom", "class_path": service.class_path, "config": service.config, **own}


def _kind(service: CustomService) -> ServiceKind:
    """The user's object. Raises UsageError when it lacks a method of the contract."""
    kind = load_object(service.class_path)(**service.config)
    missing = [name for name in ("plan", "identity") if not callable(getattr(kind, name, None))]
    if missing:
        raise UsageError(
            f"{service.class_path} is not a service: it lacks {' and '.join(missing)}",
            hint="see nemo_evaluator.services.ServiceKind: plan(name, service, site) and identity(service)",
        )
    return cast(ServiceKind, kind)


KIND: Final = Kind(CustomService, Custom)
