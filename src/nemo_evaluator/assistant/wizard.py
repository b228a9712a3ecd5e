"""The wizard: five questions, then every value that is still missing. What it asks with is given by the caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from nemo_evaluator.assistant.build_config import Answers, Question, build_config, fill, questions, read_answers
from nemo_evaluator.assistant.yaml_text import Missing, missing_values

_DEFAULTS: Final = Answers()


class Prompt(Protocol):
    """Whoever answers: a person at a terminal, or a script."""

    def choose(self, question: Question, default: str) -> str:
        """A word of the question, or several with commas; checked by the wizard's caller as flags are."""
        ...

    def value(self, missing: Missing) -> str:
        """A value that only the user knows; never empty."""
        ...


def ask_answers(prompt: Prompt, given: Mapping[str, Any]) -> Answers:
    """The five answers: those that flags gave, and the others asked for."""
    answers: dict[str, Any] = {}
    for name, question in questions().items():
        if given.get(name):
            answers[name] = given[name]
            continue
        default = getattr(_DEFAULTS, name)
        word = prompt.choose(question, default[0] if question.many else default)
        answers[name] = [word] if question.many else word
    return read_answers(answers)


def ask_config(prompt: Prompt, answers: Answers, settings: tuple[str, ...], model: str | None) -> str:
    """The config of the answers, with every missing value asked for."""
    text = build_config(answers, settings, model)
    for missing in missing_values(text):
        text = fill(text, missing.name, prompt.value(missing))
    return text
