"""Which transport an endpoint gets."""

from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.transport import Transport


def open_transport(endpoint: Endpoint) -> Transport:
    """Open the transport of an endpoint: through batches if its service uses them and there is a folder for them."""
    if endpoint.batch is None or endpoint.batch.folder is None:
        return Transport(endpoint)
    from nemo_evaluator.models.batch.transport import BatchTransport  # noqa: PLC0415 - most runs have no batches

    return BatchTransport(endpoint, endpoint.batch)
