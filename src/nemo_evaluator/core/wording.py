"""Counts and sentences for people."""

import textwrap


def counted(number: int, noun: str) -> str:
    """Return a count with its noun: ``1 problem``, ``1,319 problems``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def folded(text: str, width: int | None) -> str:
    """Break long lines between words at ``width``; continuation lines are indented by two more."""
    if width is None:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        continuation_indent = " " * (len(line) - len(line.lstrip()) + 2)
        lines += textwrap.wrap(
            line,
            max(width, 40),
            subsequent_indent=continuation_indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(lines)


def wrapped(
    text: str, indent: str = "  ", *, width: int | None = None, mark: str = ""
) -> list[str]:
    """Put a sentence after its ``mark``, broken into lines of ``width``, the later ones indented further."""
    first_indent = f"{indent}{mark}"
    if width is None or not text:
        return [(first_indent + text).rstrip()]
    continuation_indent = indent + " " * max(len(mark), 2)
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=first_indent,
        subsequent_indent=continuation_indent,
        break_on_hyphens=False,
    )
