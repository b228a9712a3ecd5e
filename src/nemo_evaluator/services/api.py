"""``type: api``: a model behind a URL that somebody else keeps up."""

import warnings
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from nemo_evaluator.config.fields import Later, SecretText, Url, protocol_of_url
from nemo_evaluator.config.service_base import ModelService
from nemo_evaluator.core.kinds import Kind


class ApiService(ModelService):
    """A model behind a URL that somebody else keeps up."""

    type: Literal["api"] = "api"
    url: Url = Field(
        description="Full URL of the endpoint, such as `https://host/v1/chat/completions`."
    )
    model: str | None = Field(
        None, description="Model name in requests; null: the name of the service."
    )
    api_key: SecretText | None = Field(
        None, description="Key; write `${VARIABLE}`, never the key itself."
    )
    health_path: Later[str] = Field(
        None, description="Path that answers 200 when the server is up."
    )

    def model_id(self, name: str) -> str:
        """The model that the config names."""
        return self.model or name

    @model_validator(mode="after")
    def _url_and_protocol(self) -> Self:
        spoken = protocol_of_url(self.url)
        if spoken is not None and "protocol" not in self.model_fields_set:
            self.protocol = spoken
        elif spoken is not None and spoken != self.protocol:
            warnings.warn(
                f"the URL path speaks of {spoken}, the protocol is {self.protocol}",
                UserWarning,
                stacklevel=2,
            )
        return self


KIND: Final = Kind(ApiService)
