"""Templates in Jinja's sandbox: they can only read their variables, and their output is limited."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from nemo_evaluator.core.errors import UsageError

_LONGEST: Final = 10_000_000
_MOST_ROUNDS: Final = 1_000_000
# Methods that create long texts from short ones.
_PADDING: Final = frozenset(
    {"center", "ljust", "rjust", "zfill", "expandtabs", "format", "format_map"}
)


class _Environment(ImmutableSandboxedEnvironment):
    """A sandboxed environment that refuses operations with very large results."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator to numbers of ordinary size; raise SecurityError for anything else."""
        if operator == "**":
            is_harmless = abs(left) < 1000 and abs(right) < 100
        else:
            # A text times a number could be very long, and so could a text formatted by %.
            is_harmless = isinstance(left, int | float) and isinstance(right, int | float)
        if not is_harmless:
            raise SecurityError(f"{operator} is for numbers of ordinary size in a template")
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Refuse attributes that pad or format text, in addition to those that Jinja refuses."""
        return attr not in _PADDING and super().is_safe_attribute(obj, attr, value)


class _Rounds:
    """``range`` with a limit on the total number of iterations of one rendering."""

    def __init__(self) -> None:
        self.left = _MOST_ROUNDS

    def __call__(self, *bounds: int) -> Iterator[int]:
        """Return an iterator over a range; raise SecurityError once the limit is exceeded."""
        rounds = range(*bounds)
        self.left -= len(rounds)
        if self.left < 0:
            raise SecurityError(f"the loops of a template may have {_MOST_ROUNDS:,} rounds")
        return iter(rounds)


def renderer(text: str) -> Callable[..., str]:
    """Compile a template to a function that renders it with the given names.

    Raises:
        UsageError: If the template has a syntax error.
    """
    environment = _Environment(
        keep_trailing_newline=True, undefined=jinja2.StrictUndefined, autoescape=False
    )
    for name in ("lipsum", "cycler", "joiner"):
        del environment.globals[name]
    for name in ("center", "format", "indent", "wordwrap", "xmlattr", "pprint"):
        del environment.filters[name]
    try:
        template = environment.from_string(text)
    except jinja2.TemplateSyntaxError as error:
        raise UsageError(f"instruction_template: line {error.lineno}: {error.message}") from error

    def render(**names: Any) -> str:
        pieces: list[str] = []
        size = 0
        for piece in template.generate({"range": _Rounds()} | names):
            size += len(piece)
            if size > _LONGEST:
                raise SecurityError(f"a prompt may have {_LONGEST:,} characters")
            pieces.append(piece)
        return "".join(pieces)

    return render
