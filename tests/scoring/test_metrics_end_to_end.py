"""Every kind of ``scoring.metrics`` through a whole run: changing it changes the result."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from nemo_evaluator.config import ScoringConfig, parse_eval_config
from nemo_evaluator.core.errors import AuthError, ConfigError, JudgeError, UsageError
from nemo_evaluator.core.files import iter_jsonl
from nemo_evaluator.core.types import SeedResult, VerifyResult
from nemo_evaluator.engine.verify import Verifier
from nemo_evaluator.environments import EvalEnvironment, get_environment
from nemo_evaluator.models import Client, Endpoint
from nemo_evaluator.suite.results import SuiteOptions
from nemo_evaluator.suite.run import run_suite
from nemo_evaluator.testing import Fault, Rule, Say, ScriptedServer, Seen

BENCHMARK = """
from nemo_evaluator.environments.custom import ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import exact_match, needs_judge

@benchmark(name="capitals", dataset="rows.jsonl", prompt="The capital of {country}?", target_field="city")
@scorer
def capitals(sample: ScorerInput):
    return exact_match(sample)

@benchmark(name="essays", dataset="rows.jsonl", prompt="Write about {country}.", target_field="city")
@scorer
def essays(sample: ScorerInput):
    return needs_judge(sample)
"""
BENCHMARK += """
@benchmark(name="stand_in", dataset="rows.jsonl", prompt="The capital of {country}?", target_field="city")
@scorer
def stand_in(sample: ScorerInput):
    return {**exact_match(sample), "needs_judge": True, "fallback": "exact match"}

def helper(sample):
    # Written so that nobody can tell from the code what it calls.
    return globals()["needs_" + str("judge")](sample)

@benchmark(name="hidden", dataset="rows.jsonl", prompt="The capital of {country}?", target_field="city")
@scorer
def hidden(sample: ScorerInput):
    return helper(sample)
"""
ROWS = [("France", "Paris"), ("Italy", "Rome"), ("Norway", "Oslo"), ("Spain", "Madrid")]
# The model knows two capitals and says the third in a sentence.
ANSWERS = {
    "The capital of France?": "Paris",
    "The capital of Italy?": "Rome",
    "The capital of Norway?": "Surely Oslo, I would say",
    "The capital of Spain?": "Seville",
}


@dataclass
class Outcome:
    bundle: dict[str, Any]
    rows: list[dict[str, Any]]
    exit_code: int

    @property
    def scores(self) -> dict[str, Any]:
        return self.bundle["benchmark"]["scores"]

    @property
    def rewards(self) -> list[float | None]:
        return [row["reward"] for row in self.rows]


@dataclass
class Lab:
    """A model, two judges, and a benchmark in a folder."""

    folder: Path
    model: ScriptedServer
    judge: ScriptedServer
    second: ScriptedServer
    services: dict[str, Any] = field(default_factory=dict)

    async def run(
        self,
        scoring: dict[str, Any] | None,
        *,
        name: str = "capitals",
        builtin: str | None = None,
        resume: bool = False,
        **bench: Any,
    ) -> Outcome:
        urls = {"model": self.model, "judge": self.judge, "second": self.second}
        services = {
            key: {
                "type": "api",
                "url": f"{server.url}/chat/completions",
                "protocol": "chat_completions",
                "model": key,
                "retry": {"max_retries": 0},
                **self.services.get(key, {}),
            }
            for key, server in urls.items()
        }
        entry = {
            "name": builtin or f"{self.folder / 'bench.py'}:{name}",
            "solver": {"type": "simple", "service": "model"},
            "max_system_retries": 1,
            "shuffle_seed": None,
            **({"scoring": scoring} if scoring is not None else {}),
            **bench,
        }
        config = parse_eval_config(
            {
                "services": services,
                "benchmarks": [entry],
                "output": {"dir": str(self.folder / "out"), "report": []},
            }
        )
        options = SuiteOptions(self.folder / "out", "run", resume=resume, say=lambda text: None)
        result = await run_suite(config, options)
        one = result.benchmarks[0]
        if one.error is not None:
            raise one.error
        assert one.bundle is not None and one.task_dir is not None
        return Outcome(
            one.bundle, list(iter_jsonl(one.task_dir / "results.jsonl")), result.exit_code
        )


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    (tmp_path / "bench.py").write_text(BENCHMARK)
    rows = [json.dumps({"country": country, "city": city}) for country, city in ROWS]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n")
    model = ScriptedServer("An essay.", answers=ANSWERS)
    async with model, ScriptedServer("?") as judge, ScriptedServer("?") as second:
        yield Lab(tmp_path, model, judge, second)


def grade(score: Any, **more: Any) -> str:
    return json.dumps({"reasoning": "so", "score": score, **more})


def judge_metric(**fields: Any) -> dict[str, Any]:
    return {
        "type": "judge",
        "name": "quality",
        "service": "judge",
        "max_retries": 0,
        "canaries": False,
        **fields,
    }


def says(server: ScriptedServer, script: Any) -> None:
    server.book = type(server.book)(script)


async def test_extra_scorers_stand_beside_the_benchmark_and_primary_puts_one_in_front(
    lab: Lab,
) -> None:
    plain = await lab.run(None)
    assert plain.rewards == [1, 1, 0, 0]
    assert "scorer:fuzzy_match" not in plain.scores
    beside = await lab.run({"metrics": [{"type": "scorer", "name": "fuzzy_match"}]})
    assert beside.rewards == [1, 1, 0, 0]
    assert beside.scores["scorer:fuzzy_match"]["value"] == 0.75
    assert beside.rows[2]["scorer_rewards"] == {"scorer:fuzzy_match": 1.0}
    front = await lab.run(
        {"metrics": [{"type": "scorer", "name": "fuzzy_match"}], "primary": "fuzzy_match"}
    )
    assert front.rewards == [1, 1, 1, 0]


async def test_without_defaults_the_only_metric_is_the_score(lab: Lab) -> None:
    alone = await lab.run(
        {"include_defaults": False, "metrics": [{"type": "scorer", "name": "fuzzy_match"}]}
    )
    assert alone.rewards == [1, 1, 1, 0]
    assert alone.rows[0]["scoring_details"]["method"] == "metric:fuzzy_match"


async def test_a_judge_grades_by_its_rubric_and_scale(lab: Lab) -> None:
    def judge(seen: Seen) -> str:
        return grade(5 if "Be kind." in seen.prompt else 3)

    says(lab.judge, judge)
    neutral = await lab.run({"metrics": [judge_metric()], "primary": "quality"})
    assert neutral.rewards == [0.5] * 4
    assert neutral.rows[0]["scoring_details"]["scorer:quality"]["score"] == 3
    kind = await lab.run({"metrics": [judge_metric(rubric="Be kind.")], "primary": "quality"})
    assert kind.rewards == [1.0] * 4
    (lab.folder / "rubric.txt").write_text("Be kind. Above all.")
    from_file = judge_metric(rubric_file=str(lab.folder / "rubric.txt"))
    assert (await lab.run({"metrics": [from_file], "primary": "quality"})).rewards == [1.0] * 4
    wide = await lab.run({"metrics": [judge_metric(max_score=9)], "primary": "quality"})
    assert wide.rewards == [0.25] * 4


async def test_what_the_judge_is_asked(lab: Lab) -> None:
    says(lab.judge, grade(4))
    settings = judge_metric(system_prompt="You are Solomon.", temperature=0.7)
    await lab.run({"metrics": [settings]}, max_problems=1)
    body = lab.judge.requests[-1].body
    assert body["messages"][0] == {"role": "system", "content": "You are Solomon."}
    assert body["temperature"] == 0.7
    assert body["response_format"]["type"] == "json_schema"
    assert re.search(
        r"<reference-([0-9a-f]{16})>\nParis\n</reference-\1>", lab.judge.requests[-1].prompt
    )
    await lab.run({"metrics": [judge_metric(reference_free=True)]}, max_problems=1)
    assert "<reference" not in lab.judge.requests[-1].prompt
    template = judge_metric(rubric="Q: {instruction} A: {response} E: {expected}")
    await lab.run({"metrics": [template]}, max_problems=1)
    prompt = re.sub(r"-[0-9a-f]{16}", "", lab.judge.requests[-1].prompt)
    assert "Q: The capital of France? A: <response>\nParis\n</response> E: Paris" in prompt


async def test_swap_check_asks_twice_and_takes_the_mean(lab: Lab) -> None:
    def first_counts(seen: Seen) -> str:
        return grade(5 if seen.prompt.index("<task-") < seen.prompt.index("<response-") else 1)

    says(lab.judge, first_counts)
    once = await lab.run({"metrics": [judge_metric()], "primary": "quality"})
    twice = await lab.run({"metrics": [judge_metric(swap_check=True)], "primary": "quality"})
    assert (once.rewards[0], twice.rewards[0]) == (1.0, 0.5)
    assert twice.rows[0]["scoring_details"]["scorer:quality"]["position_bias"] == 4


async def test_a_benchmark_that_needs_a_judge_gets_its_verdict_from_it(lab: Lab) -> None:
    says(lab.judge, grade(4))
    judged = await lab.run({"metrics": [judge_metric()]}, name="essays")
    assert judged.rewards == [0.75] * 4
    assert "needs_judge" not in judged.rows[0]["scoring_details"]


@pytest.mark.parametrize("allowed", [False, True])
async def test_a_benchmark_that_needs_a_judge_and_has_none_is_refused(
    lab: Lab, allowed: bool
) -> None:
    with pytest.raises(UsageError, match="scored by a judge") as caught:
        await lab.run({"allow_fallback": allowed}, name="essays")
    assert "type: judge" in (caught.value.hint or "")
    assert "--allow-fallback" not in (caught.value.hint or "")
    assert lab.model.count == 0


async def test_a_scorer_that_asks_for_a_judge_on_the_way_is_never_a_score(lab: Lab) -> None:
    none = await lab.run(None, name="hidden")
    assert none.rewards == [None] * 4
    assert none.rows[0]["failure"]["cause"] == "judge"
    assert none.rows[0]["attempts"] == 1
    assert none.exit_code == 3


async def test_a_fallback_must_be_asked_for_and_is_named(lab: Lab) -> None:
    """A benchmark of the user's that says ``needs_judge`` and how it scores without one."""
    with pytest.raises(UsageError, match="scored by a judge") as caught:
        await lab.run(None, name="stand_in")
    assert "--allow-fallback" in (caught.value.hint or "")
    assert lab.model.count == 0
    allowed = await lab.run({"allow_fallback": True}, name="stand_in")
    assert allowed.rewards == [1, 1, 0, 0]
    assert allowed.bundle["benchmark"]["fallback"] == {"exact match": 4}
    assert allowed.bundle["benchmark"]["notes"][0].startswith("no judge: 4 of 4 rows")
    says(lab.judge, grade(4))
    judged = await lab.run({"metrics": [judge_metric()], "allow_fallback": True}, name="stand_in")
    assert judged.rewards == [0.75] * 4
    assert "fallback" not in judged.bundle["benchmark"]


async def test_a_judge_that_says_yes_to_everything_is_caught_before_the_model_is_asked(
    lab: Lab,
) -> None:
    says(lab.judge, grade(5))
    metric = judge_metric(canaries=True)
    with pytest.raises(JudgeError, match="cannot tell a right answer from a wrong one") as caught:
        await lab.run({"metrics": [metric]})
    assert "--resume" in (caught.value.hint or "")
    assert (lab.model.count, lab.judge.count) == (0, 2)

    def sound(seen: Seen) -> str:
        return grade(1 if "stupid question" in seen.prompt else 4)

    says(lab.judge, sound)
    mended = await lab.run({"metrics": [metric]}, resume=True)
    canaries = mended.bundle["benchmark"]["canaries"]["quality"]
    assert (canaries["right"], canaries["wrong"]) == (0.75, 0.0)
    assert canaries["judge_tokens"] > 0
    assert lab.judge.count == 2 + 2 + 4
    again = await lab.run({"metrics": [metric]}, resume=True)
    assert lab.judge.count == 8
    assert again.bundle["benchmark"]["canaries"] == mended.bundle["benchmark"]["canaries"]


@pytest.mark.parametrize("metric", ["pairwise_judge", "ensemble_judge", "reward_model", "judge"])
async def test_every_kind_of_judge_is_checked(lab: Lab, metric: str) -> None:
    scores = {"score": 3, "score_a": 5, "score_b": 2, "reasoning": "so"}
    for server in (lab.judge, lab.second):
        says(server, "0.8" if metric == "reward_model" else json.dumps(scores))
    fields = {
        "pairwise_judge": {"judge_service": "judge", "baseline_service": "second"},
        "ensemble_judge": {"services": ["judge", "second"]},
        "reward_model": {"service": "judge"},
        "judge": {"service": "judge", "rubric": "Is it polite?"},
    }[metric]
    with pytest.raises(JudgeError, match="cannot tell a right answer from a wrong one"):
        await lab.run({"metrics": [{"type": metric, "name": "m", **fields}]})
    assert lab.model.count == 0


async def test_a_judge_that_cannot_be_parsed_fails_its_canary(lab: Lab) -> None:
    says(lab.judge, "I like it.")
    with pytest.raises(JudgeError, match="could not parse the reply"):
        await lab.run({"metrics": [judge_metric(canaries=True)]})
    assert lab.model.count == 0


async def test_canaries_count_against_the_budget(lab: Lab) -> None:
    says(lab.judge, lambda seen: grade(1 if "stupid question" in seen.prompt else 4))
    result = await lab.run(
        {"metrics": [judge_metric(canaries=True)]}, budget={"requests": 4}, max_concurrent=1
    )
    assert lab.judge.count + lab.model.count <= 4
    assert result.exit_code == 4


async def test_repeats_have_seeds_of_their_own_and_judges_keep_theirs(lab: Lab) -> None:
    says(lab.judge, grade(4))
    lab.services = {"model": {"generation": {"seed": 7}}, "judge": {"generation": {"seed": 11}}}
    await lab.run({"metrics": [judge_metric()]}, repeats=3)
    seeds = [request.body["seed"] for request in lab.model.requests]
    assert len(set(seeds)) == 3
    assert seeds.count(7) == 4
    assert all(seeds.count(seed) == 4 and 0 <= seed < 2**31 for seed in seeds)
    assert {request.body["seed"] for request in lab.judge.requests} == {11}
    asked = lab.model.count
    await lab.run({"metrics": [judge_metric()]}, repeats=3, resume=True)
    assert lab.model.count == asked


@pytest.mark.parametrize(
    "garbage",
    ["I like it", '{"score": null}', '{"score": -3}', '{"score": 7}', '{"score": true}', "", "{"],
)
async def test_a_judge_that_answers_garbage_gives_coverage_and_never_a_zero(
    lab: Lab, garbage: str
) -> None:
    says(
        lab.judge,
        [
            Rule(garbage, contains="Norway"),
            Rule(garbage, contains="could not be parsed"),
            Rule(grade(5)),
        ],
    )
    result = await lab.run({"metrics": [judge_metric()], "primary": "quality"})
    assert result.rewards == [1.0, 1.0, None, 1.0]
    assert result.rows[2]["failure"]["cause"] == "judge"
    assert result.rows[2]["model_response"] == "Surely Oslo, I would say"
    assert result.bundle["benchmark"]["coverage"]["share"] == 0.75
    assert result.scores["pass@1"]["value"] == 1.0
    assert result.exit_code == 3


async def test_an_unreadable_verdict_is_repaired_once(lab: Lab) -> None:
    says(lab.judge, [Rule(grade(5), contains="could not be parsed"), Rule("I like it.")])
    result = await lab.run({"metrics": [judge_metric()], "primary": "quality"})
    assert result.rewards == [1.0] * 4
    assert lab.judge.count == 8


async def test_a_server_that_refuses_schemas_is_asked_without_one(lab: Lab) -> None:
    def judge(seen: Seen) -> Say | str:
        refused = Say(status=400, message="response_format is not supported")
        return refused if "response_format" in seen.body else grade(5)

    says(lab.judge, judge)
    result = await lab.run({"metrics": [judge_metric()], "primary": "quality"}, max_concurrent=1)
    assert result.rewards == [1.0] * 4
    assert lab.judge.count == 5


async def test_timeout_and_retries_of_a_judge(lab: Lab) -> None:
    says(lab.judge, [Say("?", fault=Fault.STALL), Say(grade(5))])
    bounded = judge_metric(timeout=0.3)
    failed = await lab.run({"metrics": [bounded], "primary": "quality"}, max_problems=1)
    assert failed.rewards == [None]
    assert "0.3 s" in failed.rows[0]["failure"]["message"]
    lab.judge.count = 0
    says(lab.judge, lambda seen: Say("?", fault=Fault.STALL) if lab.judge.count == 1 else grade(5))
    retried = await lab.run(
        {"metrics": [{**bounded, "max_retries": 1}], "primary": "quality"}, max_problems=1
    )
    assert retried.rewards == [1.0]


async def test_resume_judges_again_without_asking_the_model(lab: Lab) -> None:
    says(lab.judge, grade(1))
    await lab.run({"metrics": [judge_metric()], "primary": "quality"})
    asked = lab.model.count
    says(lab.judge, grade(5))
    again = await lab.run(
        {"metrics": [judge_metric(rubric="Anew.")], "primary": "quality"}, resume=True
    )
    assert again.rewards == [1.0] * 4
    assert lab.model.count == asked
    judged = lab.judge.count
    await lab.run({"metrics": [judge_metric(rubric="Anew.")], "primary": "quality"}, resume=True)
    assert lab.judge.count == judged


async def test_pairwise_judge_compares_with_the_baseline(lab: Lab) -> None:
    lab.second.book = type(lab.second.book)("Lyon")

    def prefers(capital: str) -> Callable[[Seen], str]:
        def judge(seen: Seen) -> str:
            first = seen.prompt.partition("<answer_a-")[2].partition("</answer_a-")[0]
            scores = (5, 2) if capital in first else (2, 5)
            return json.dumps({"reasoning": "", "score_a": scores[0], "score_b": scores[1]})

        return judge

    def once_a_tie(capital: str) -> Callable[[Seen], str]:
        def judge(seen: Seen) -> str:
            first = seen.prompt.partition("<answer_a-")[2].partition("</answer_a-")[0]
            return json.dumps(
                {"reasoning": "", "score_a": 5, "score_b": 2 if capital in first else 5}
            )

        return judge

    metric = {
        "type": "pairwise_judge",
        "name": "duel",
        "judge_service": "judge",
        "baseline_service": "second",
        "canaries": False,
    }
    says(lab.judge, prefers("Paris"))
    won = await lab.run({"metrics": [metric], "primary": "duel"}, max_problems=1)
    assert won.rewards == [1.0]
    assert won.rows[0]["scoring_details"]["scorer:duel"]["baseline_response"] == "Lyon"
    says(lab.judge, prefers("Lyon"))
    assert (await lab.run({"metrics": [metric], "primary": "duel"}, max_problems=1)).rewards == [
        0.0
    ]
    says(lab.judge, prefers(""))
    biased = await lab.run({"metrics": [metric], "primary": "duel"}, max_problems=1)
    assert biased.rewards == [0.5]
    assert biased.scores["duel.consistency"]["value"] == 0.0
    says(lab.judge, once_a_tie("Paris"))
    mixed = await lab.run({"metrics": [metric], "primary": "duel"}, max_problems=1)
    assert mixed.rewards == [0.5], "a win in one order and a tie in the other is no win"
    with pytest.raises(ConfigError):
        await lab.run(
            {"metrics": [{**metric, "swap_check": False}], "primary": "duel"}, max_problems=1
        )


async def test_ensemble_judge_puts_grades_together_and_reports_agreement(lab: Lab) -> None:
    says(lab.judge, lambda seen: grade(5 if "France" in seen.prompt else 2))
    says(lab.second, lambda seen: grade(4 if "France" in seen.prompt else 1))
    metric = {
        "type": "ensemble_judge",
        "name": "jury",
        "services": ["judge", "second"],
        "canaries": False,
    }
    mean = await lab.run({"metrics": [metric], "primary": "jury"})
    assert mean.rewards == [0.875, 0.125, 0.125, 0.125]
    alpha = mean.scores["jury.krippendorff_alpha"]["value"]
    assert 0.7 < alpha < 0.9
    says(lab.second, lambda seen: grade(1 if "France" in seen.prompt else 5))
    worse = await lab.run({"metrics": [{**metric, "aggregation": "median"}], "primary": "jury"})
    assert worse.scores["jury.krippendorff_alpha"]["value"] < 0
    says(lab.second, "no")
    silent = await lab.run(
        {"metrics": [{**metric, "aggregation": "majority_vote"}], "primary": "jury"}
    )
    assert silent.rewards == [None] * 4


async def test_reward_model_reads_numbers_aspects_and_pairs(lab: Lab) -> None:
    metric = {"type": "reward_model", "name": "rm", "service": "judge", "canaries": False}
    says(lab.judge, "0.8")
    assert (await lab.run({"metrics": [metric], "primary": "rm"})).rewards == [0.8] * 4
    assert lab.judge.requests[-1].body["messages"][-1]["role"] == "assistant"
    says(lab.judge, "reward:-5")
    ranged = await lab.run(
        {"metrics": [{**metric, "score_range": [-10, 10], "threshold": -6}], "primary": "rm"}
    )
    assert ranged.rewards == [0.25] * 4
    assert ranged.scores["rm.accuracy"]["value"] == 1.0
    stricter = await lab.run(
        {"metrics": [{**metric, "score_range": [-10, 10], "threshold": 0}], "primary": "rm"}
    )
    assert stricter.scores["rm.accuracy"]["value"] == 0.0
    says(lab.judge, "helpfulness:0.4,correctness:0.9")
    aspects = {**metric, "mode": "multi_aspect"}
    assert (await lab.run({"metrics": [aspects], "primary": "rm"})).rewards == pytest.approx(
        [0.65] * 4
    )
    one = await lab.run({"metrics": [{**aspects, "aspect": "correctness"}], "primary": "rm"})
    assert one.rewards == [0.9] * 4
    says(
        lab.judge,
        lambda seen: "0.9" if seen.prompt in ("Paris", "Rome", "Oslo", "Madrid") else "0.1",
    )
    pair = await lab.run({"metrics": [{**metric, "mode": "pairwise"}], "primary": "rm"})
    assert pair.rewards == [0.5, 0.5, 0.0, 0.0]
    says(lab.judge, "no number")
    assert (await lab.run({"metrics": [metric], "primary": "rm"})).rewards == [None] * 4


async def test_custom_metrics_by_class_and_by_function(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lab.folder / "own_metrics.py").write_text(
        "from nemo_evaluator.scoring import MetricResult\n"
        "class Length:\n"
        "    def __init__(self, unit=10): self.unit = unit\n"
        "    async def measure(self, sample):\n"
        "        return MetricResult(min(1.0, len(sample.response) / self.unit), {'length': len(sample.response)})\n"
        "def starts(sample): return {'correct': sample.response.startswith(sample.config['letter'])}\n"
        "def broken(sample): raise ValueError('oh')\n"
    )
    monkeypatch.syspath_prepend(str(lab.folder))
    custom = {"type": "custom", "name": "own", "class_path": "own_metrics:Length"}
    assert (await lab.run({"metrics": [custom], "primary": "own"})).rewards == [0.5, 0.4, 1.0, 0.7]
    wide = await lab.run({"metrics": [{**custom, "config": {"unit": 100}}], "primary": "own"})
    assert wide.rewards[0] == 0.05
    function = {**custom, "class_path": "own_metrics:starts", "config": {"letter": "S"}}
    assert (await lab.run({"metrics": [function], "primary": "own"})).rewards == [0, 0, 1, 1]
    broken = await lab.run(
        {"metrics": [{**custom, "class_path": "own_metrics:broken"}], "primary": "own"}
    )
    assert broken.rewards == [None] * 4
    assert broken.rows[0]["failure"]["cause"] == "scorer"


async def test_a_model_may_not_judge_itself_unless_allowed(lab: Lab) -> None:
    itself = judge_metric(service="model")
    with pytest.raises(ConfigError, match="judge its own answers"):
        await lab.run({"metrics": [itself]})
    lab.model.book = type(lab.model.book)(grade(5))
    allowed = await lab.run(
        {"metrics": [{**itself, "allow_self_judge": True}], "primary": "quality"}
    )
    assert allowed.rewards == [1.0] * 4


@pytest.mark.needs("bwrap")
async def test_a_command_in_the_sandbox_decides(lab: Lab) -> None:
    metric = {
        "type": "sandbox",
        "name": "checked",
        "command": 'test "$(cat "$NEL_RESPONSE")" = "$NEL_EXPECTED"',
    }
    sandbox = {"type": "local"}
    scored = await lab.run({"metrics": [metric], "primary": "checked"}, sandbox=sandbox)
    assert scored.rewards == [1, 1, 0, 0]
    lenient = {**metric, "command": 'grep -q "$NEL_EXPECTED" "$NEL_RESPONSE"'}
    assert (
        await lab.run({"metrics": [lenient], "primary": "checked"}, sandbox=sandbox)
    ).rewards == [1, 1, 1, 0]
    slow = {**metric, "command": "sleep 5", "verify_timeout": 0.3}
    late = await lab.run({"metrics": [slow], "primary": "checked"}, sandbox=sandbox, max_problems=1)
    assert late.rewards == [0]
    assert late.rows[0]["scoring_details"]["scorer:checked"]["timed_out"] is True
    nowhere = await lab.run({"metrics": [metric], "primary": "checked"})
    assert nowhere.rewards == [None] * 4
    own = await lab.run(
        {"metrics": [{**metric, "command": None}], "primary": "checked"}, sandbox=sandbox
    )
    assert own.rows[0]["failure"]["cause"] == "scorer"


@pytest.mark.needs("mirror")
@pytest.mark.usefixtures("wide_mirror")
async def test_simpleqa_reports_its_three_grades(lab: Lab) -> None:
    grades = iter(["CORRECT", "CORRECT", "INCORRECT", "NOT_ATTEMPTED"])
    says(lab.judge, lambda seen: json.dumps({"grade": next(grades), "reason": "so"}))
    scoring = {"include_defaults": False, "metrics": [judge_metric()]}
    result = await lab.run(scoring, builtin="simpleqa", max_problems=4, max_concurrent=1)
    assert sorted(result.rewards) == [0, 0, 1, 1]
    assert result.scores["accuracy"]["value"] == 0.5
    assert result.scores["attempted"]["value"] == 0.75
    assert result.scores["f1"]["value"] == pytest.approx(2 * 0.5 * (2 / 3) / (0.5 + 2 / 3))
    for row in result.rows:
        verdict = row["scoring_details"]["scorer:quality"]
        assert json.loads(verdict["raw"]) == {"grade": verdict["grade"], "reason": "so"}
        assert verdict["reasoning"] == "so"


@pytest.mark.needs("mirror")
@pytest.mark.usefixtures("wide_mirror")
async def test_healthbench_counts_the_points_of_its_rubric(lab: Lab) -> None:
    def judge(seen: Seen) -> str:
        criteria = seen.prompt.partition("Criteria:\n")[2].partition("\n\nJudge each")[0]
        return json.dumps(
            {"met": [True] * sum(line[0].isdigit() for line in criteria.split("\n") if line)}
        )

    says(lab.judge, judge)
    all_met = await lab.run({"metrics": [judge_metric()]}, builtin="healthbench", max_problems=2)
    assert all(reward is not None for reward in all_met.rewards)
    says(lab.judge, '{"met": [true]}')
    short = await lab.run({"metrics": [judge_metric()]}, builtin="healthbench", max_problems=2)
    assert short.rewards == [None, None]
    with pytest.raises(UsageError, match="its own question"):
        await lab.run(
            {"metrics": [judge_metric(max_score=3)]}, builtin="healthbench", max_problems=2
        )


async def test_metrics_also_measure_the_work_of_a_solver_that_grades_itself() -> None:
    environment = get_environment("quickstart")
    scoring = ScoringConfig(metrics=[{"type": "scorer", "name": "exact_match"}])
    seed = await environment.seed(0)
    given = VerifyResult(0.25, scoring_details={"method": "solver"})
    verdict = await Verifier(environment, scoring).verify(seed.expected_answer, seed, None, given)
    assert verdict.reward == 0.25
    assert verdict.scoring_details["scorer:exact_match"]["reward"] == 1.0
    primary = scoring.model_copy(update={"primary": "exact_match"})
    given = VerifyResult(0.25, scoring_details={"method": "solver"})
    assert (
        await Verifier(environment, primary).verify(seed.expected_answer, seed, None, given)
    ).reward == 1.0


async def test_a_judge_does_not_spend_the_limits_of_the_step(lab: Lab) -> None:
    says(lab.judge, grade(5))
    scoring = {"metrics": [judge_metric(swap_check=True)], "primary": "quality"}
    result = await lab.run(scoring, step_limits={"turns": 1})
    assert result.rewards == [1.0] * 4


async def test_the_budget_of_the_run_counts_the_judge_too(lab: Lab) -> None:
    says(lab.judge, grade(5))
    scoring = {"metrics": [judge_metric()], "primary": "quality"}
    result = await lab.run(scoring, budget={"requests": 5}, max_concurrent=1)
    assert lab.model.count + lab.judge.count == 5
    assert [reward for reward in result.rewards if reward is not None] == [1.0, 1.0]
    assert not any(row["failure"] for row in result.rows)


async def test_a_wrong_key_of_the_judge_stops_the_benchmark(lab: Lab) -> None:
    says(lab.judge, Say(status=401, message="bad key"))
    with pytest.raises(AuthError):
        await lab.run({"metrics": [judge_metric()], "primary": "quality"})


class JudgedByItself(EvalEnvironment):
    """A benchmark with its own question for a judge, whose reply is one word."""

    name = "by itself"
    dataset: ClassVar[list[str]] = ["?"]

    async def seed(self, idx: int) -> SeedResult:
        return SeedResult("?", "")

    async def verify(self, response: str, expected: str, *_: Any, **__: Any) -> VerifyResult:
        return VerifyResult(0.0, None, {"needs_judge": True})

    def judge_prompt(self, seed: SeedResult, response: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": response}]

    def parse_judge(self, answer: str, seed: SeedResult) -> dict[str, Any]:
        return {"reward": float(answer.startswith("GOOD"))}


async def test_the_reply_of_a_judge_that_a_benchmark_needs_is_kept() -> None:
    reply = "GOOD, since it says what was asked for, politely and at some length."
    async with ScriptedServer(reply) as server, Client(Endpoint("judge", server.url)) as client:
        environment = JudgedByItself()
        verifier = Verifier(environment, None, {"judge": client})
        verdict = await verifier.verify("x", await environment.seed(0))
    assert verdict.reward == 1.0
    assert verdict.scoring_details["raw"] == reply
