"""Connections of agents to their model that failed on our side, by the URL that the agent got.

The code that forwards the connections records failures here. The code that grades the attempt checks, so that an agent
that lost its model is not scored.
"""

# By URL: why its last connection failed.
_broken: dict[str, str] = {}


def note_broken(url: str, why: str) -> None:
    """Record that a connection to ``url`` could not be forwarded, for a reason that is not the agent's."""
    _broken[url] = why


def mended(url: str) -> None:
    """Forget a failure, because nel answered a later request through ``url``, or the attempt has ended."""
    _broken.pop(url, None)


def why_broken(url: str) -> str | None:
    """Explain why the last connection to ``url`` was not forwarded; None when it was."""
    return _broken.get(url)
