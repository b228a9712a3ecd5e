"""One thing that would keep a run from running: where it is in the config, what is wrong, how to fix it."""

from collections.abc import Callable
from typing import Final, NamedTuple

from nemo_evaluator.core.errors import NelError

#: The place of a value in the config, as keys and positions.
ConfigPath = tuple[str | int, ...]
_NO_HINT: Final = "see the message"


class Obstacle(NamedTuple):
    """A problem before it has the line of the config file.

    Attributes:
        path: The value that is wrong.
        message: What is wrong with it.
        hint: How to fix it.
    """

    path: ConfigPath
    message: str
    hint: str


def obstacle_of(error: NelError, path: ConfigPath, hint: str = _NO_HINT) -> Obstacle:
    """Turn an error into an obstacle.

    Args:
        error: What was raised; where it has no hint of its own, its cause speaks for it.
        path: The value that led to it.
        hint: The hint for an error that has none.
    """
    if isinstance(error.__cause__, NelError) and not error.hint:
        error = error.__cause__
    return Obstacle(path, error.message, error.hint or hint)


def obstacles_of(
    path: ConfigPath, check: Callable[..., object], *arguments: object, hint: str = _NO_HINT
) -> list[Obstacle]:
    """Call ``check`` with ``arguments``; the NelError that it raises becomes the only obstacle."""
    try:
        check(*arguments)
    except NelError as error:
        return [obstacle_of(error, path, hint)]
    return []
