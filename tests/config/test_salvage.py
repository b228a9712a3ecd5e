"""What is left of a broken config: valid, with the numbers of its benchmarks, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_evaluator.config import load_mapping
from nemo_evaluator.config._document import show_path
from nemo_evaluator.config.load import path_of, salvage
from nemo_evaluator.core.errors import ConfigError

API = {"type": "api", "url": "http://127.0.0.1:9/v1/chat/completions"}
ASKS = {"type": "simple", "service": "model"}


def rest(data: dict[str, Any]) -> Any:
    with pytest.raises(ConfigError) as caught:
        load_mapping(data)
    return salvage(data, caught.value.problems)


def test_wrong_values_are_left_out_and_the_rest_stays() -> None:
    entry = {"name": "gsm8k", "max_concurrent": 0, "repeats": 3, "solver": ASKS}
    config, numbers = rest({"services": {"model": API}, "benchmarks": [entry], "outptu": {}})
    assert numbers == [0]
    assert (config.benchmarks[0].repeats, config.benchmarks[0].max_concurrent) == (3, 32)


def test_a_service_or_solver_that_cannot_be_mended_is_stood_in_for() -> None:
    data = {
        "services": {"model": {"type": "api"}, "judge": API},
        "benchmarks": [{"name": "gsm8k", "solver": {"type": "agnet"}}],
    }
    config, numbers = rest(data)
    assert (numbers, config.benchmarks[0].solver.type) == ([0], "simple")
    assert config.services["judge"].url.startswith("http://127.0.0.1:9")


def test_a_benchmark_without_a_name_is_dropped_and_the_others_keep_their_numbers() -> None:
    named = {"name": "gsm8k", "solver": ASKS}
    config, numbers = rest(
        {"services": {"model": API}, "benchmarks": [{"solver": ASKS}, named, "what", named]}
    )
    assert numbers == [1, 3]
    assert [one.name for one in config.benchmarks] == ["gsm8k", "gsm8k"]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"benchmarks": "gsm8k"},
        {"benchmarks": [], "services": {"model": API}},
        {"benchmarks": [3], "services": {"model": API}},
    ],
)
def test_too_little_is_nothing(data: dict[str, Any]) -> None:
    assert rest(data) is None


def test_a_cluster_that_is_not_understood_leaves_nothing() -> None:
    """Where the run happens decides whether datasets are opened here."""
    data = {
        "services": {"model": API},
        "benchmarks": [{"name": "gsm8k", "solver": ASKS}],
        "cluster": {"type": "slrum"},
    }
    assert rest(data) is None


@pytest.mark.parametrize(
    "path", [("a", 0, "b"), ("services", "m.1", "url"), ("benchmarks", 12), ("x",)]
)
def test_a_shown_path_is_read_back(path: tuple[str | int, ...]) -> None:
    assert path_of(show_path(path)) == path
