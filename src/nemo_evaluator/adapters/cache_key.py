"""The key of a request: equal for requests that mean the same, different for any that do not."""

import hashlib
from typing import Any, Final

from nemo_evaluator.core.hashing import canonical
from nemo_evaluator.core.types import JsonDict

# Fields that change how an answer is delivered or accounted for, not what it says.
_DELIVERY: Final = frozenset(
    {"stream", "stream_options", "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}
)


def cache_key(path: str, body: JsonDict, *, repeat: int = 0, service: Any = None) -> str:
    """64 hex digits over path, every meaningful field, the repeat and the service."""
    meaning = {key: _plain(value) for key, value in body.items() if value is not None and key not in _DELIVERY}
    whole = [path, meaning, repeat, service]
    return hashlib.sha256(canonical(whole)).hexdigest()


def _plain(value: Any) -> Any:
    # 0 and 0.0 are one temperature.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
