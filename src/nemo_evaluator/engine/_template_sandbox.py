"""Templates in Jinja's sandbox: they read what they are given, and cannot grow without bound."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from nemo_evaluator.core.errors import UsageError

_LONGEST: Final = 10_000_000
_MOST_ROUNDS: Final = 1_000_000
# Ways to make much out of little: padding, repetition, powers.
_PADDING: Final = frozenset(
    {"center", "ljust", "rjust", "zfill", "expandtabs", "format", "format_map"}
)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        plain = (
            isinstance(left, int | float) and isinstance(right, int | float) and operator != "**"
        )
        if not plain and not (operator == "**" and abs(left) < 1000 and abs(right) < 100):
            raise SecurityError(f"{operator} is for numbers of ordinary size in a template")
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return attr not in _PADDING and super().is_safe_attribute(obj, attr, value)


class _Rounds:
    """``range`` with a bound on all the rounds of one rendering together."""

    def __init__(self) -> None:
        self.left = _MOST_ROUNDS

    def __call__(self, *bounds: int) -> Iterator[int]:
        rounds = range(*bounds)
        self.left -= len(rounds)
        if self.left < 0:
            raise SecurityError(f"the loops of a template may have {_MOST_ROUNDS:,} rounds")
        return iter(rounds)


def renderer(text: str) -> Callable[..., str]:
    """A function that renders the template with the names it is given."""
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
        parts: list[str] = []
        size = 0
        for part in template.generate({"range": _Rounds()} | names):
            size += len(part)
            if size > _LONGEST:
                raise SecurityError(f"a prompt may have {_LONGEST:,} characters")
            parts.append(part)
        return "".join(parts)

    return render
