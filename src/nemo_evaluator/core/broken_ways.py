"""Ways to a model that broke on our side, by the URL that an agent was given.

Whoever carries an agent's connections notes here that one could not be carried. Whoever judges the attempt looks, so
that an agent that was left without its model is not scored for it.
"""

_broken: dict[str, str] = {}


def note_broken(url: str, why: str) -> None:
    """A connection to ``url`` could not be carried, and not for anything that the agent did."""
    _broken[url] = why


def mended(url: str) -> None:
    """A call through ``url`` was answered since, or nobody asks any more."""
    _broken.pop(url, None)


def why_broken(url: str) -> str | None:
    """Why the last connection to ``url`` was not carried; None when the way is well."""
    return _broken.get(url)
