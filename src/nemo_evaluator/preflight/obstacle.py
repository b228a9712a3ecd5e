"""A problem that would stop a run: its path in the config, what is wrong, and how to fix it."""

from collections.abc import Callable
from typing import Final, NamedTuple

from nemo_evaluator.core.errors import NelError

#: The path of a value in the config, as keys and list indices.
ConfigPath = tuple[str | int, ...]
_NO_HINT: Final = "see the message"


class Obstacle(NamedTuple):
    """A problem that does not yet have its line in the config file.

    Attributes:
        path: The path of the wrong value.
        message: What is wrong with it.
        hint: How to fix it.
    """

    path: ConfigPath
    message: str
    hint: str


def obstacle_of(error: NelError, path: ConfigPath, hint: str = _NO_HINT) -> Obstacle:
    """Convert an error to an obstacle.

    Args:
        error: The error; if it has no hint, its cause is used instead.
        path: The path of the value that caused it.
        hint: The hint for an error that has none.
    """
    if isinstance(error.__cause__, NelError) and not error.hint:
        error = error.__cause__
    return Obstacle(path, error.message, error.hint or hint)


def obstacles_of(
    path: ConfigPath, check: Callable[..., object], *arguments: object, hint: str = _NO_HINT
) -> list[Obstacle]:
    """Call ``check`` with ``arguments``, and convert the NelError that it raises to an obstacle.

    Returns:
        The obstacle, or an empty list.
    """
    try:
        check(*arguments)
    except NelError as error:
        return [obstacle_of(error, path, hint)]
    return []
