"""Every example becomes the plan that is kept beside it, field by field, and the plan is a config that loads."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nemo_evaluator.config import load_mapping
from nemo_evaluator.launcher.compose import compose_launcher
from nemo_evaluator.launcher.translate import translate

_EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "launcher").glob("*.yaml"))
_PLANS = Path(__file__).parent / "plans"


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.stem)
def test_an_example_becomes_its_plan(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "NVIDIA_API_KEY", "NGC_API_KEY", "JUDGE_API_KEY"):
        monkeypatch.setenv(name, f"value of {name}")
    translated = translate(compose_launcher(example), dry=True)
    translated.check()
    assert translated.config == yaml.safe_load((_PLANS / example.name).read_text())
    load_mapping(translated.config)


def test_there_is_a_plan_for_each() -> None:
    assert {path.name for path in _PLANS.iterdir()} == {path.name for path in _EXAMPLES}
    assert len(_EXAMPLES) >= 12
