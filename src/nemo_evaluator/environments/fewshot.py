"""Few-shot examples: worked problems of another split, the same ones for every problem (or for every group)."""

import random
from collections.abc import Callable
from typing import Any

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import Rows


class FewShot:
    """Draws ``count`` examples out of ``rows`` in a fixed random order, or ``in_order`` as they stand.

    The order does not depend on ``count``, so 3 examples are the first 3 of 5. With ``by``, a problem gets examples
    whose column of that name is equal to its own. A problem is never its own example.
    """

    def __init__(
        self, rows: Rows, count: int, by: str | None, render: Callable[[JsonDict], str], in_order: bool = False
    ) -> None:
        self._rows = rows
        self._count = count
        self._by = by
        self._render = render
        self._in_order = in_order
        self._pools: dict[Any, list[JsonDict]] = {}
        self._texts: dict[tuple[int, ...], str] = {}

    def rows(self, row: JsonDict) -> list[JsonDict]:
        pool = self._pool(row.get(self._by) if self._by else None)
        chosen = [example for example in pool if example != row][: self._count]
        if len(chosen) < self._count:
            group = f" with {self._by} {row.get(self._by)!r}" if self._by else ""
            raise UsageError(
                f"fewshot: {self._count} examples were asked for, {self._rows.source} has {len(chosen)}{group}",
                hint=f"set fewshot to at most {len(chosen)}",
            )
        return chosen

    def text(self, row: JsonDict) -> str:
        """The examples for a problem as one text that ends with a blank line."""
        chosen = self.rows(row)
        key = tuple(map(id, chosen))
        if key not in self._texts:
            self._texts[key] = "".join(f"{self._render(example)}\n\n" for example in chosen)
        return self._texts[key]

    def _pool(self, group: Any) -> list[JsonDict]:
        if not self._pools:
            # One more than asked for, in case a problem is among its own examples.
            wanted = self._count + 1
            numbers = list(range(len(self._rows)))
            if not self._in_order:
                random.Random("42:fewshot").shuffle(numbers)
            for number in numbers if self._by else numbers[:wanted]:
                example = self._rows[number]
                pool = self._pools.setdefault(example.get(self._by) if self._by else None, [])
                if len(pool) < wanted:
                    pool.append(example)
        return self._pools.get(group, [])
