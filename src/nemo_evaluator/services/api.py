"""``type: api``: a model behind a URL, on a server that nel does not start."""

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
        implied = protocol_of_url(self.url)
        if implied is not None and "protocol" not in self.model_fields_set:
            self.protocol = implied
        elif implied is not None and implied != self.protocol:
            warnings.warn(
                f"the URL path implies {implied}, but protocol is {self.protocol}",
                UserWarning,
                stacklevel=2,
            )
        return self


KIND: Final = Kind(ApiService)
