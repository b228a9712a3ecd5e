"""Every example becomes the plan that is kept beside it, field by field, and the plan is a config that loads.

``NEL_WRITE_GOLDEN=1 pytest tests/launcher/test_examples.py`` writes the plans after a change on purpose.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from nemo_evaluator.config import load_mapping
from nemo_evaluator.launcher.compose import compose_launcher
from nemo_evaluator.launcher.routes import Preference
from nemo_evaluator.launcher.translate import translate

_EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "launcher").glob("*.yaml"))
_PLANS = Path(__file__).parent / "plans"


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.stem)
def test_an_example_becomes_its_plan(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "NVIDIA_API_KEY", "NGC_API_KEY", "JUDGE_API_KEY"):
        monkeypatch.setenv(name, f"value of {name}")
    prefer: Preference = "same"
    if "--native" in example.read_text():
        prefer = "native"
    translated = translate(compose_launcher(example), prefer=prefer, dry=True)
    translated.check()
    if os.environ.get("NEL_WRITE_GOLDEN"):
        plan = yaml.safe_dump(translated.config, sort_keys=False)
        (_PLANS / example.name).write_text(plan)
    assert translated.config == yaml.safe_load((_PLANS / example.name).read_text())
    load_mapping(translated.config)


def test_there_is_a_plan_for_each() -> None:
    assert {path.name for path in _PLANS.iterdir()} == {path.name for path in _EXAMPLES}
    assert len(_EXAMPLES) >= 12
