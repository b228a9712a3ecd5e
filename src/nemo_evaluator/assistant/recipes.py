"""Recipes: how named benchmarks are usually run, as data."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2
import yaml

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import did_you_mean

DATA: Final = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Recipe:
    """One benchmark with its repeats and limits; ``config`` is its entry of ``benchmarks:``."""

    name: str
    title: str
    repeats: int
    metric: str
    damage: str
    config: str
    older: int | None = None
    context: int | None = None
    judge: bool = False
    tools: bool = False
    needs: list[str] = field(default_factory=list)
    environment: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def benchmark(self) -> dict[str, Any]:
        """The entry of ``benchmarks:`` as data."""
        return dict(yaml.safe_load(self.config)[0])


@cache
def recipes() -> dict[str, Recipe]:
    """Every recipe, by name."""
    return {name: Recipe(name, **row) for name, row in read_data("recipes.yaml").items()}


def find_recipe(name: str) -> Recipe:
    """The recipe of a name, also as other tools spell it (``ns_gpqa``, ``nemo_skills.ns_gpqa``, ``gpqa-diamond``)."""
    word = name.lower().rpartition(".")[2].replace("-", "_")
    for known in (word, f"ns_{word}", word.removeprefix("ns_")):
        if known in recipes():
            return recipes()[known]
    raise UsageError(f"there is no recipe {name!r}", hint=did_you_mean(name, recipes()))


def render(template: str, **values: Any) -> str:
    """Render a template of this package."""
    made = jinja2.Environment(autoescape=False, undefined=jinja2.StrictUndefined)  # noqa: S701 - text, not HTML
    return made.from_string((DATA / template).read_text(encoding="utf-8")).render(values)


@cache
def read_data(name: str) -> Any:
    """A data file of this package."""
    return yaml.safe_load((DATA / name).read_text(encoding="utf-8"))
