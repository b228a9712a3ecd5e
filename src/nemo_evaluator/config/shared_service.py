"""The schema of another way to ask a server that the config already has."""

from typing import Any, Final, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from nemo_evaluator.config.fields import ServiceName
from nemo_evaluator.config.service_base import ModelService, ServiceBase
from nemo_evaluator.core.secrets import Secret

# Settings of the service itself; every other one may come from the server.
_OWN: Final = frozenset({"type", "depends_on", "batch"})


class SharedService(ModelService):
    """Another way to ask the server of another service: its own protocol, interceptors and generation settings.

    Settings that it leaves out are those of the server's service.
    """

    type: Literal["shared"] = "shared"
    server: ServiceName = Field(description="The service whose server answers.")
    _owner: ModelService | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _waits_for_server(self) -> Self:
        if self.server not in self.depends_on:
            self.depends_on = [*self.depends_on, self.server]
        return self

    @property
    def owner(self) -> ModelService:
        """The service that has the server."""
        assert self._owner is not None, "the config that holds both services sets it"
        return self._owner

    def share(self, owner: ModelService) -> None:
        """Take the server of another service, and its settings where this service sets none.

        Args:
            owner: The service that has the server.
        """
        self._owner = owner
        for name in ModelService.model_fields:
            if name not in _OWN and name not in self.model_fields_set:
                setattr(self, name, getattr(owner, name))

    def as_asked(self) -> ModelService:
        """The server's own service, with the settings of this one for requests."""
        settings: dict[str, Any] = {}
        for name in ModelService.model_fields:
            if name not in _OWN:
                settings[name] = getattr(self, name)
        return self.owner.model_copy(update=settings)

    @property
    def url(self) -> str | None:
        """The URL of the server, if nel does not start it."""
        return getattr(self._owner, "url", None)

    @property
    def api_key(self) -> Secret | None:
        """The key of the server, if nel does not start it."""
        return getattr(self._owner, "api_key", None)

    def base_url(self) -> str | None:
        """The base URL of the server, if the config determines it."""
        return self.owner.base_url()

    def model_id(self, name: str) -> str:
        """The name of the model in requests, which is that of the server."""
        return self.owner.model_id(self.server)


def share_servers(services: dict[str, ServiceBase]) -> None:
    """Give every shared service its server.

    Args:
        services: The services of a config, by name.
    """
    for service in services.values():
        if isinstance(service, SharedService):
            owner = services.get(service.server)
            if isinstance(owner, ModelService) and not isinstance(owner, SharedService):
                service.share(owner)
