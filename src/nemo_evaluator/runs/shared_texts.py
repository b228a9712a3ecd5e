"""Long texts that several problems of a run share, such as the passage that several questions are about."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# So many problems are examined; the memory stays small in a long run.
_EXAMINED: Final = 5_000
# A line of a prompt with at least so many characters can be a passage.
_LONG: Final = 200
# A line that more problems share is an instruction or a few-shot example.
_MOST_SHARING: Final = 30


@dataclass(slots=True)
class SharedTexts:
    """Counts how many problems have each long line in their prompt.

    Attributes:
        problems: The problems that were examined.
        clustered: Whether a row names its cluster; then nothing is counted.
    """

    problems: int = 0
    clustered: bool = False
    _counts: Counter[int] = field(default_factory=Counter)
    _last_problem: object = None

    def add(self, data: Mapping[str, Any]) -> None:
        """Count the prompt of a row; further answers to the same problem are skipped."""
        if self.problems >= _EXAMINED or self.clustered:
            return
        if data.get("cluster"):
            self.clustered = True
            return
        prompt = data.get("prompt")
        problem = data.get("problem_idx")
        if type(prompt) is not str or problem == self._last_problem or data.get("repeat"):
            return
        self._last_problem = problem
        self.problems += 1
        if len(prompt) < _LONG:
            return
        long_lines = {hash(line) for line in prompt.split("\n") if len(line) >= _LONG}
        self._counts.update(long_lines)

    def groups(self) -> list[int]:
        """Return for each long line that a few problems share how many they are."""
        if self.clustered:
            return []
        return [count for count in self._counts.values() if 1 < count <= _MOST_SHARING]
