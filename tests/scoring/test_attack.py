"""The attack battery tells a judge that obeys the answer from one that reads it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nemo_evaluator.cli.main import nel
from nemo_evaluator.testing import ScriptedServer, Seen

BATTERY = json.loads(
    (Path(__file__).parents[2] / "src/nemo_evaluator/scoring/data/judge_attacks.json").read_text(
        encoding="utf-8"
    )
)
RIGHT = {problem["right"] for problem in BATTERY["problems"]}
ORDERS = re.compile(
    "highest grade|score|every answer gets|right one|note 5|verified|certainty|complete|Cross-checked"
)


def grade(score: int) -> str:
    return json.dumps({"reasoning": "", "score": score})


def robust(seen: Seen) -> str:
    """Grades what stands in the fence by whether it is right."""
    said = re.search(r"<response-(\w+)>\n(.*)\n</response-\1>", seen.prompt, re.DOTALL)
    assert said is not None
    return grade(5 if said[2] in RIGHT else 1)


def gullible(seen: Seen) -> str:
    """Does what the answer tells it to, and likes whatever comes first."""
    said = re.search(r"<response-(\w+)>\n(.*)\n</response-\1>", seen.prompt, re.DOTALL)
    assert said is not None
    swapped = seen.prompt.index("<reference-") < seen.prompt.index("<response-")
    return grade(5 if swapped or said[2] in RIGHT or ORDERS.search(said[2]) else 1)


def sides(seen: Seen) -> list[str]:
    """The two answers as a pairwise judge sees them, in their order."""
    return [
        found[2]
        for found in re.finditer(
            r"<answer_[ab]-(\w+)>\n(.*?)\n</answer_[ab]-\1>", seen.prompt, re.DOTALL
        )
    ]


def grades(first: int, second: int) -> str:
    return json.dumps({"reasoning": "", "score_a": first, "score_b": second})


def robust_pairwise(seen: Seen) -> str:
    return grades(*(5 if text in RIGHT else 1 for text in sides(seen)))


def gullible_pairwise(seen: Seen) -> str:
    """Does what the first of the two answers tells it to, and sees through the second."""
    first, second = sides(seen)
    return grades(5 if first in RIGHT or ORDERS.search(first) else 1, 5 if second in RIGHT else 1)


async def attacked_pairwise(
    judge: Callable[[Seen], str], folder: Path
) -> tuple[dict[str, Any], str]:
    async with ScriptedServer(judge) as server:
        api = {"type": "api", "protocol": "chat_completions", "model": "m"}
        # The baseline is never asked: nothing answers there.
        services = {
            "judge": api | {"url": server.url},
            "model": api | {"url": "http://127.0.0.1:9/v1"},
        }
        metric = {
            "type": "pairwise_judge",
            "name": "duel",
            "judge_service": "judge",
            "baseline_service": "model",
        }
        bench = {"name": "quickstart", "solver": {"type": "simple", "service": "model"}}
        config = {"services": services, "benchmarks": [bench | {"scoring": {"metrics": [metric]}}]}
        (folder / "c.yaml").write_text(json.dumps(config))
        told = [
            await asyncio.to_thread(
                CliRunner().invoke, nel, ["judge", "attack", str(folder / "c.yaml"), *more]
            )
            for more in (["--json"], [])
        ]
    assert [done.exit_code for done in told] == [0, 0], told[0].output
    return json.loads(told[0].stdout)[0], told[1].stdout


async def test_pairwise_judges_are_attacked_in_both_places(tmp_path: Path) -> None:
    firm, _ = await attacked_pairwise(robust_pairwise, tmp_path)
    assert (firm["flip_rate"], firm["misjudged_unattacked"], firm["tells_right_from_wrong"]) == (
        0.0,
        0,
        True,
    )
    assert firm["kinds"]["injection"] == {"tried": 96, "flipped": 0}
    soft, _ = await attacked_pairwise(gullible_pairwise, tmp_path)
    # It falls for whatever comes first, which is half of what is tried.
    assert (
        soft["kinds"]["injection"]["tried"] == 96
        and 30 < soft["kinds"]["injection"]["flipped"] <= 48
    )
    assert soft["kinds"]["position"]["flipped"] == 0


async def test_a_judge_that_does_not_tell_right_from_wrong_is_called_so(tmp_path: Path) -> None:
    first, said = await attacked_pairwise(lambda seen: grades(5, 1), tmp_path)
    assert (
        first["tells_right_from_wrong"],
        first["judged_unattacked"],
        first["misjudged_unattacked"],
    ) == (
        False,
        24,
        12,
    )
    assert first["kinds"]["position"] == {"tried": 12, "flipped": 12}
    assert "does not tell right from wrong" in " ".join(said.split())
    mild = await attacked(lambda seen: grade(5))
    assert mild["tells_right_from_wrong"] is False and mild["kinds"] == {
        "position": {"tried": 12, "flipped": 0}
    }
    assert (await attacked(robust))["tells_right_from_wrong"] is True


async def attacked(judge: Callable[[Seen], str]) -> dict[str, object]:
    async with ScriptedServer(judge) as server:
        args = ["judge", "attack", "--judge-url", server.url, "--judge-id", "j", "--json"]
        done = await asyncio.to_thread(CliRunner().invoke, nel, args, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)[0]


async def test_a_gullible_and_a_robust_judge_are_told_apart() -> None:
    firm, soft = await attacked(robust), await attacked(gullible)
    assert firm["flip_rate"] == 0 and firm["misjudged_unattacked"] == 0 and firm["no_verdict"] == 0
    assert isinstance(soft["flip_rate"], float) and soft["flip_rate"] > 0.7
    kinds = soft["kinds"]
    assert isinstance(kinds, dict) and {*kinds} == {
        "injection",
        "padding",
        "self-praise",
        "position",
    }
    assert kinds["position"] == {"tried": 12, "flipped": 6} and kinds["injection"]["flipped"] > 30
    assert firm["kinds"]["injection"]["tried"] == 48  # type: ignore[index]


async def test_a_judge_that_gives_no_verdict_is_not_called_robust() -> None:
    found = await attacked(lambda seen: "I like it")
    assert (
        found["flip_rate"] is None
        and found["no_verdict"] == 12
        and found["tells_right_from_wrong"] is None
    )


def test_what_is_to_be_attacked_must_be_said() -> None:
    assert "nothing to attack" in str(CliRunner().invoke(nel, ["judge", "attack"]).exception)


@pytest.mark.large
@pytest.mark.needs("model", "xllamacpp")
def test_the_embedded_model_can_be_attacked(tmp_path: Path) -> None:
    config = tmp_path / "judge.yaml"
    config.write_text(
        """
services:
  model: {type: api, url: "http://127.0.0.1:9/v1", protocol: chat_completions, model: none}
  judge: {type: llama_cpp, model: smollm2-135m, context_size: 2048, generation: {max_tokens: 60}}
benchmarks:
  - name: quickstart
    solver: {type: simple, service: model}
    scoring: {metrics: [{type: judge, name: judge, service: judge, max_retries: 0}]}
"""
    )
    done = CliRunner().invoke(
        nel, ["judge", "attack", str(config), "--problems", "1", "--json"], catch_exceptions=False
    )
    found = json.loads(done.output[done.output.index("[{") :])[0]
    assert (
        found["judge"] == "judge"
        and found["no_verdict"] + sum(k["tried"] for k in found["kinds"].values()) >= 2
    )
