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
    """How one benchmark is usually run: repeats, limits, needs.

    Attributes:
        metric: Regular expression for the canonical score.
        damage: How well the benchmark shows quantization damage.
        config: The benchmark's entry of ``benchmarks:``, as YAML.
        context: Context length that the benchmark needs, in tokens.
    """

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
        """The entry of ``benchmarks:``, parsed."""
        return dict(yaml.safe_load(self.config)[0])


@cache
def recipes() -> dict[str, Recipe]:
    """Return all recipes by name."""
    return {name: Recipe(name, **row) for name, row in read_data("recipes.yaml").items()}


def find_recipe(name: str) -> Recipe:
    """Find a recipe, also by another tool's name for it (``ns_gpqa``, ``nemo_skills.ns_gpqa``, ``gpqa-diamond``).

    Raises:
        UsageError: If there is no such recipe.
    """
    normalised = name.lower().rpartition(".")[2].replace("-", "_")
    for candidate in (normalised, f"ns_{normalised}", normalised.removeprefix("ns_")):
        if candidate in recipes():
            return recipes()[candidate]
    raise UsageError(f"there is no recipe {name!r}", hint=did_you_mean(name, recipes()))


def render(template: str, **values: Any) -> str:
    """Render a template of this package with the given values."""
    environment = jinja2.Environment(autoescape=False, undefined=jinja2.StrictUndefined)  # noqa: S701 - text, not HTML
    return environment.from_string((DATA / template).read_text(encoding="utf-8")).render(values)


@cache
def read_data(name: str) -> Any:
    """Parse a YAML file of this package's data folder."""
    return yaml.safe_load((DATA / name).read_text(encoding="utf-8"))
