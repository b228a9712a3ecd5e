"""Every example config is right, by our own check and by the JSON Schema that editors use."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from nemo_evaluator.config import EvalConfig, config_schema, load_config, parse_eval_config
from nemo_evaluator.config.compose import PLAYBOOKS, playbook_names
from nemo_evaluator.core.kinds import NOT_YET
from nemo_evaluator.core.secrets import MASK
from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.engine.template import InstructionTemplate, load_template
from nemo_evaluator.preflight import find_problems

ROOT = Path(__file__).parents[2]
SCHEMA = jsonschema.Draft202012Validator(config_schema())
EXAMPLES = sorted((ROOT / "examples" / "configs").glob("*.yaml"))
# The numbers of the walkthrough.
NUMBERED = {
    "00",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "07",
    "09",
    "13",
    "14",
    "15",
    "16",
    "17",
    "21",
    "22",
    "23",
}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_API_KEY", "nvapi-example")


def test_the_walkthrough_is_complete() -> None:
    assert {path.name[:2] for path in EXAMPLES} >= NUMBERED


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    loaded = load_config(path)
    assert not loaded.warnings
    assert "nvapi-example" not in str(loaded.config.model_dump())
    SCHEMA.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_or_its_first_line_says_why_not(path: Path) -> None:
    first = path.read_text().partition("\n")[0]
    said = re.fullmatch(r"# Not supported yet: (.+)\. `nel config check` says so too\.", first)
    found = {problem.message for problem in find_problems(load_config(path), file_only=True)}
    expected = {
        f"{what} {'are' if what.endswith('benchmarks') else 'is'} {NOT_YET}"
        for what in (said[1].split(", ") if said else [])
    }
    assert found == expected


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_fewer_problems_are_the_first_ones_unless_the_example_says_at_random(path: Path) -> None:
    """Who reads `max_problems: 5` takes it for the first five."""
    for benchmark in load_config(path).config.benchmarks:
        if benchmark.max_problems is not None:
            assert benchmark.shuffle_seed is None or "at random" in path.read_text(), benchmark.key


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_config_comes_back_from_its_own_data(path: Path) -> None:
    config = load_config(path).config
    data = config.model_dump()
    again = EvalConfig.model_validate(data)
    assert again.model_dump() == data
    # A config without its secrets is refused, so others stand in for them.
    complete = json.loads(json.dumps(data).replace(MASK, "stand-in"))
    assert parse_eval_config(complete).model_dump() == data


@pytest.mark.parametrize("name", playbook_names())
def test_playbook(name: str, write) -> None:
    text = f"""
services:
  model: {{type: api, url: "http://h/v1", protocol: chat_completions}}
  judge: {{type: api, url: "http://h/v1", protocol: chat_completions}}
benchmarks:
  - playbook: {name}
    max_problems: 3
    sandbox: {{region: us-east-1}}
"""
    benchmark = load_config(write(config=text)).config.benchmarks[0]
    packaged = yaml.safe_load((PLAYBOOKS / f"{name}.yaml").read_text())
    assert benchmark.max_problems == 3
    assert benchmark.name == packaged["name"]
    assert benchmark.max_concurrent == packaged["max_concurrent"]
    assert benchmark.sandbox.type == "ecs_fargate"
    assert benchmark.sandbox.region == "us-east-1"  # type: ignore[attr-defined]
    assert benchmark.sandbox.concurrency == packaged["sandbox"]["concurrency"]  # type: ignore[attr-defined]


def test_a_playbook_of_ones_own_beside_the_config(write) -> None:
    path = write(
        config="services: {}\nbenchmarks: [{playbook: mine, repeats: 2}]\n",
        mine="name: gsm8k\nrepeats: 9\nsolver: {type: oracle}\n",
    )
    loaded = load_config(path)
    assert loaded.config.benchmarks[0].name == "gsm8k"
    assert loaded.config.benchmarks[0].repeats == 2
    assert loaded.raw["benchmarks"] == [
        {"name": "gsm8k", "repeats": 2, "solver": {"type": "oracle"}}
    ]


def test_the_template_that_playbooks_name_is_packaged() -> None:
    names = {
        yaml.safe_load((PLAYBOOKS / f"{name}.yaml").read_text()).get("instruction_template")
        for name in playbook_names()
    }
    for name in names - {None}:
        text = load_template(name)
        assert text is not None
        seed = SeedResult("Fix the parser.", "", metadata={"repo": "r"})
        prompt = InstructionTemplate(text).apply(seed).prompt
        assert "Fix the parser." in prompt
        assert "/testbed" in prompt
