"""boto3, where it is installed."""

from __future__ import annotations

from typing import Any

from nemo_evaluator.core.errors import MissingExtraError


def client(service: str, region: str | None) -> Any:
    """A client of an AWS service. Raises MissingExtraError with the install line."""
    try:
        import boto3  # noqa: PLC0415 - heavy, and only for this kind of sandbox
        from botocore.config import Config  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("boto3", extra="aws") from error
    settings = Config(retries={"mode": "adaptive", "max_attempts": 10})
    return boto3.client(service, region_name=region, config=settings)
