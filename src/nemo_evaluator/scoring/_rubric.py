"""The request to a rubric judge, and how its grade is parsed."""

import math
import re
from dataclasses import dataclass
from typing import Final, Self

from nemo_evaluator.config.scoring import RubricMetric
from nemo_evaluator.core.errors import JudgeError, UsageError
from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.core.registry import find_file
from nemo_evaluator.core.types import JsonDict, Message, SeedResult
from nemo_evaluator.scoring._reply import FENCE_NOTE, fenced, judge_reply, object_schema
from nemo_evaluator.scoring._text import strip_reasoning

_SYSTEM: Final = (
    "You are a strict and fair judge. You reply with one valid JSON object and nothing else."
)
_DEFAULT_RUBRIC: Final = (
    "Judge how well the response does what the task asks: correctness first, then completeness, "
    "then clarity."
)
_PLACES: Final = ("{instruction}", "{response}", "{expected}", "{reference_section}")
_PLACE: Final = lazy_pattern("|".join(map(re.escape, _PLACES)))
_RATIO: Final = lazy_pattern(
    r"(\d{1,9}(?:\.\d{1,9})?) ?(?:/|out of) ?(\d{1,9}(?:\.\d{1,9})?)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Rubric:
    """A rubric and the scale of its grades: from 1 (or 0, when the highest is 1) to ``max_score``."""

    text: str = _DEFAULT_RUBRIC
    max_score: float = 5.0
    system_prompt: str = _SYSTEM
    reference_free: bool = False

    @classmethod
    def of(
        cls, config: RubricMetric, system_prompt: str | None = None, reference_free: bool = False
    ) -> Self:
        """Create the rubric of a config: its text, that of its file, or the default one.

        Raises:
            UsageError: The file cannot be read.
        """
        text = config.rubric or _DEFAULT_RUBRIC
        path = config.rubric_file
        if path and not config.rubric:
            try:
                text = find_file(path).read_text(encoding="utf-8")
            except OSError as error:
                raise UsageError(f"the rubric file {path} cannot be read: {error}") from error
        return cls(text, float(config.max_score), system_prompt or _SYSTEM, reference_free)

    @property
    def low(self) -> float:
        """Return the lowest grade of the scale."""
        return 1.0 if self.max_score > 1 else 0.0

    @property
    def scale(self) -> str:
        """Describe the scale for the judge's prompt."""
        return f"{self.low:g} (worst) to {self.max_score:g} (best)"

    @property
    def is_default(self) -> bool:
        """Return whether the rubric is the default one, which asks for correctness."""
        return self.text == _DEFAULT_RUBRIC

    def describe(self) -> JsonDict:
        """Return all parts of the rubric that may change a grade, for fingerprints."""
        return {
            "rubric": self.text,
            "max_score": self.max_score,
            "system": self.system_prompt,
            "reference_free": self.reference_free,
        }

    def reward(self, score: float) -> float:
        """Return the place of a grade on the scale, from 0 to 1."""
        return min(1.0, max(0.0, (score - self.low) / (self.max_score - self.low)))

    def messages(self, seed: SeedResult, response: str, *, swapped: bool = False) -> list[Message]:
        """Build the request to the judge.

        Args:
            seed: The problem.
            response: The response to grade.
            swapped: Whether to show the texts in the opposite order.
        """
        reference = "" if self.reference_free else seed.expected_answer
        question = self._question(seed, response, reference, swapped=swapped)
        form = f'{{"reasoning": "one or two sentences", "score": a number from {self.scale}}}'
        request = "\n\n".join(
            (question, FENCE_NOTE, f"Reply with one JSON object and nothing else: {form}")
        )
        return [
            {"role": "system", "content": self.system_prompt},
            {"role": "user", "content": request},
        ]

    def _question(self, seed: SeedResult, response: str, reference: str, *, swapped: bool) -> str:
        """The rubric with the texts: in its placeholders, else behind it."""
        task = task_text(seed)
        answer = fenced("response", strip_reasoning(response).strip() or "(empty)")
        fenced_reference = fenced("reference", reference) if reference else ""
        if any(place in self.text for place in _PLACES):
            values = (task, answer, reference, fenced_reference)
            # One pass, so that a response that contains a placeholder is not filled in turn.
            return _PLACE.sub(lambda match: values[_PLACES.index(match[0])], self.text)
        texts = [fenced("task", task), answer]
        if reference:
            texts.append(fenced_reference)
        if swapped:
            texts.reverse()
        about = " The reference is the expected answer." if reference else ""
        instruction = f"Grade the response to the task below.{about}"
        return "\n\n".join((self.text, instruction, *texts))

    def schema(self, *scores: str) -> JsonDict:
        """Return the JSON schema of a reply with these grades."""
        score = {"type": "number", "minimum": self.low, "maximum": self.max_score}
        return object_schema({"reasoning": {"type": "string"}, **dict.fromkeys(scores, score)})

    def read(self, text: str) -> tuple[float, str]:
        """Parse the grade and the reasoning of a reply.

        Raises:
            JudgeError: There is no grade on the scale.
        """
        reply = judge_reply(text)
        if "score" not in reply:
            raise JudgeError("it has no field `score`")
        return self.check(reply["score"]), str(reply.get("reasoning", ""))

    def check(self, value: object) -> float:
        """Read a grade: a number, or a text such as "4/5". 0 is accepted and counts as the lowest grade.

        Raises:
            JudgeError: The value is not a grade on the scale.
        """
        if isinstance(value, str):
            # "4/5" or "4 out of 5"
            ratio = _RATIO.fullmatch(value.strip())
            if ratio is not None and float(ratio[2]) == self.max_score:
                value = ratio[1]
        score = math.nan
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            try:
                score = float(value)
            except (ValueError, OverflowError):
                # Not a number, or one far beyond the scale.
                score = math.nan
        if not 0 <= score <= self.max_score:
            raise JudgeError(f"`score` is {value!r}, not a number from {self.scale}")
        return score


def task_text(seed: SeedResult) -> str:
    """Return the problem as text: the prompt, or a whole conversation."""
    if seed.prompt or not seed.messages:
        return seed.prompt
    return "\n\n".join(f"{turn.get('role')}: {turn.get('content')}" for turn in seed.messages)
