"""The JSON Schema says no where the loader says no, and yes to references and composition keys."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from nemo_evaluator.cli.config import config as command
from nemo_evaluator.config import config_schema

RIGHT: dict[str, Any] = {
    "services": {"m": {"type": "api", "url": "http://h/v1", "protocol": "chat_completions"}},
    "sandboxes": {"s": {"type": "docker"}},
    "benchmarks": [
        {
            "name": "a",
            "solver": {"type": "simple", "service": "m"},
            "sandbox": "s",
            "max_problems": "${N}",
        }
    ],
    "output": {"export": ["inspect", {"type": "mlflow", "uri": "x"}]},
    "defaults": ["_self_", {"_base_": "x"}],
    "_mine": 1,
}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = config_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_right(validator: jsonschema.Draft202012Validator) -> None:
    validator.validate(RIGHT)
    validator.validate({"benchmarks": [{"playbook": "swebench_verified"}]})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("services", "m", "type"), "apii"),
        (("services", "m", "protocl"), "x"),
        (("services", "m", "protocol"), "chat"),
        (("benchmarks", 0, "max_problems"), "many"),
        (("benchmarks", 0, "repeats"), 0),
        (("benchmarks", 0, "solver", "type"), "simpel"),
        (("output", "report"), ["pdf"]),
        (("cluster",), {"type": "slrum"}),
        (("defaults",), [{"base": "x"}]),
        (("outptu",), {}),
    ],
)
def test_wrong(
    validator: jsonschema.Draft202012Validator, path: tuple[str | int, ...], value: Any
) -> None:
    data: Any = copy.deepcopy(RIGHT)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert not validator.is_valid(data)


def test_the_command_prints_it() -> None:
    printed = json.loads(CliRunner().invoke(command, ["schema"]).stdout)
    assert printed == json.loads(json.dumps(config_schema()))
    assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert printed["$defs"]["ApiService"]["properties"]["api_key"]["description"].startswith(
        "Key; write"
    )
