"""Wrong values in place of those that an assertion expects, of the same type and length: work cannot tell them."""

from __future__ import annotations

import ast
import random
import string
from collections.abc import Sequence
from typing import Final

_CONSTANTS: Final = str | bytes | int | float | None
_OPPOSITES: Final = {
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.NotEq: ("!=", "=="),
}
_OPPOSITE_METHODS: Final = {
    "assertGreater": "assertLessEqual",
    "assertGreaterEqual": "assertLess",
    "assertLess": "assertGreaterEqual",
    "assertLessEqual": "assertGreater",
    "assertNotEqual": "assertEqual",
}
_ATTEMPTS: Final = 50
_ALPHABETS: Final = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
_POSITIVE_DIGITS: Final = string.digits[1:]


def opposite_operator(comparison: ast.expr) -> tuple[str, str] | None:
    """Return the operator of a comparison and its opposite, as in source; None if there is no such pair.

    ``not (a > b)`` fails for an object that claims to satisfy every comparison; ``a <= b`` does not.
    """
    if not isinstance(comparison, ast.Compare) or len(comparison.ops) != 1:
        return None
    return _OPPOSITES.get(type(comparison.ops[0]))


def opposite_method(name: str) -> str | None:
    """Return the opposite of a unittest assertion that compares; None if there is none."""
    return _OPPOSITE_METHODS.get(name)


def constants_in(expression: ast.expr) -> list[ast.expr]:
    """Return the constants that decide the value of a literal, so that a change of one changes the value.

    Args:
        expression: A number or text, a list, tuple, set or dictionary of such, or a call of ``approx``.

    Returns:
        The constants; empty if the expression is none of these, or is without constants.
    """
    if isinstance(expression, ast.Constant) and isinstance(expression.value, _CONSTANTS):
        return [expression]
    inner_expressions: Sequence[ast.expr] = ()
    if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.USub):
        inner_expressions = [expression.operand]
    elif isinstance(expression, ast.Call) and _is_approx(expression):
        inner_expressions = [expression.args[0]]
    elif isinstance(expression, ast.List | ast.Tuple | ast.Set):
        inner_expressions = expression.elts
    elif isinstance(expression, ast.Dict):
        # A changed key could be equal to another one.
        inner_expressions = expression.values
    constants: list[ast.expr] = []
    for inner in inner_expressions:
        constants += constants_in(inner)
    return constants


def wrong_constant(value: object, chance: random.Random) -> str:
    """Return the source of another constant of the same type and, where possible, of the same length."""
    if isinstance(value, bool):
        return repr(not value)
    if isinstance(value, int):
        return _wrong_digits(str(value), chance)
    if isinstance(value, float):
        return _wrong_float(value, chance)
    if isinstance(value, bytes):
        return repr(_wrong_text(value.decode("latin-1"), chance).encode("latin-1"))
    if isinstance(value, str):
        return repr(_wrong_text(value, chance))
    return "0"


def wrong_constants(constants: Sequence[ast.expr], chance: random.Random) -> list[str] | None:
    """Return other constants in place of some, none of them equal to any of the given ones.

    Returns:
        The sources, in order; None if nel finds none.
    """
    values = [constant.value for constant in constants if isinstance(constant, ast.Constant)]
    sources: list[str] = []
    for value in values:
        for _ in range(_ATTEMPTS):
            source = wrong_constant(value, chance)
            if ast.literal_eval(source) not in values:
                sources.append(source)
                break
        else:
            return None
    return sources


def _is_approx(call: ast.Call) -> bool:
    """Whether a call is ``approx`` of one value; with a tolerance of its own, it might accept the wrong value."""
    function = call.func
    if isinstance(function, ast.Attribute):
        name = function.attr
    else:
        name = getattr(function, "id", "")
    return name == "approx" and len(call.args) == 1 and not call.keywords


def _wrong_digits(digits: str, chance: random.Random) -> str:
    """Change the first digit of a number; a number of several digits does not begin with 0."""
    candidates = string.digits if len(digits) == 1 else string.digits[1:]
    first_digit = chance.choice(candidates.replace(digits[0], ""))
    return f"{first_digit}{digits[1:]}"


def _wrong_float(value: float, chance: random.Random) -> str:
    """Change the first digit that is not 0, which no tolerance hides."""
    text = repr(value)
    for position, character in enumerate(text):
        if character in _POSITIVE_DIGITS:
            other_digit = chance.choice(_POSITIVE_DIGITS.replace(character, ""))
            return f"{text[:position]}{other_digit}{text[position + 1 :]}"
        if character not in "0.":
            break
    return f"{chance.randint(1, 9)}.0"


def _wrong_text(text: str, chance: random.Random) -> str:
    """Change one character, a letter or digit if there is one."""
    if not text:
        return chance.choice(string.ascii_lowercase)
    positions = [index for index, character in enumerate(text) if character.isalnum()]
    position = chance.choice(positions or range(len(text)))
    character = text[position]
    other_character = chance.choice(_alphabet_of(character).replace(character, ""))
    return f"{text[:position]}{other_character}{text[position + 1 :]}"


def _alphabet_of(character: str) -> str:
    """Return the letters of the same case, or the digits, for one of them; small letters for other characters."""
    for alphabet in _ALPHABETS:
        if character in alphabet:
            return alphabet
    return string.ascii_lowercase
