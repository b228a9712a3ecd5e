"""Runs through vendors' batch APIs: killed anywhere they lose nothing, and every end of a batch ends by the rules."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic_batches import AnthropicBatches
from batch_runs import SERVERS, check_whole, double, write
from batch_server import BatchServer, Fate, Refused
from forked_nel import ForkedNel, forked_nel
from nel_support import api, rows
from openai_batches import OpenAIBatches

from nemo_evaluator.models.batch.ledger import State, read_waves
from nemo_evaluator.testing import Rule, Say, Seen

# In the order in which a run meets them: each is met by the run that goes on where the one before was killed.
ORDER = {
    "openai": "prepared uploading UPLOAD uploaded submitting LISTED absent SUBMIT submitted POLL DOWNLOAD collected",
    "anthropic": "prepared uploading uploaded submitting LISTED absent SUBMIT submitted POLL RESULTS collected",
}
CANCEL = "cancelling CANCEL"


@pytest.fixture(scope="module")
def fork() -> Iterator[ForkedNel]:
    with forked_nel() as nel:
        yield nel


def kill_at(fork: ForkedNel, folder: Path, server: BatchServer, point: str, when: str) -> None:
    """Go on with the run until a point of the protocol, a call (in capitals) or a write, where it is killed."""
    pids: list[int] = []

    def on_call(called: str, moment: str) -> None:
        if point == called.upper() and moment == when:
            server.on_call = None
            os.kill(pids[0], signal.SIGKILL)
            if when == "before":
                raise Refused(503, "the client is gone")

    server.on_call = on_call
    crash = None if point.isupper() else (point, when)
    code = fork(folder, "eval", "run", "c.yaml", "--resume", crash=crash, started=pids.append)
    assert code == -signal.SIGKILL, (point, when, (folder / "nel.log").read_text())
    server.on_call = None


@pytest.mark.parametrize("provider", SERVERS)
def test_every_call_and_every_write_is_a_point_at_which_runs_are_killed(provider: str):
    calls = {name.upper() for name in SERVERS[provider].routes} - {"ASK"}
    assert {*ORDER[provider].split(), *CANCEL.split()} == {*State, *calls}


@pytest.mark.parametrize("provider", SERVERS)
@pytest.mark.parametrize("size", [30, pytest.param(5000, marks=pytest.mark.large)])
def test_killed_at_each_point_nothing_is_lost_or_asked_twice(
    fork: ForkedNel, tmp_path: Path, provider: str, size: int
):
    # A batch that was found again may have been looked at often.
    with SERVERS[provider](double, fates=[Fate(polls=4)]) as server:
        write(tmp_path, server, size)
        for point in ORDER[provider].split():
            for when in ("before", "after"):
                kill_at(fork, tmp_path, server, point, when)
        assert fork(tmp_path, "eval", "run", "c.yaml", "--resume") == 0, (
            tmp_path / "nel.log"
        ).read_text()
        check_whole(tmp_path, server, size)
        assert len(server.batches) == 1


@pytest.mark.parametrize("provider", SERVERS)
def test_killed_while_a_batch_is_cancelled_nothing_is_lost_or_asked_twice(
    fork: ForkedNel, tmp_path: Path, provider: str
):
    with SERVERS[provider](double, fates=[Fate("never", done=0.5), Fate()]) as server:
        write(tmp_path, server, 10, max_wait=0.5)
        for point in CANCEL.split():
            for when in ("before", "after"):
                kill_at(fork, tmp_path, server, point, when)
        # What was done before the end counts, and whoever resumes the run wants the rest.
        assert [row["reward"] for row in ended(fork, tmp_path)] == [1.0] * 10
        assert sorted(server.answered.values()) == [1] * 10
        assert [len(batch.requests) for batch in server.batches.values()] == [10, 5]


@pytest.mark.parametrize("provider", SERVERS)
def test_a_cancel_that_never_got_there_does_not_keep_the_run_from_its_batch(
    fork: ForkedNel, tmp_path: Path, provider: str
):
    pids: list[int] = []
    with SERVERS[provider](double, fates=[Fate("never")]) as server:

        def stop(name: str, when: str) -> None:
            if name == "poll":
                server.on_call = None
                os.kill(pids[0], signal.SIGINT)

        server.on_call = stop
        write(tmp_path, server, 5)
        killed = fork(
            tmp_path, "eval", "run", "c.yaml", crash=("cancelling", "after"), started=pids.append
        )
        assert (killed, server.calls["cancel"]) == (-signal.SIGKILL, 0)
        # Later than a cancelled batch may take to end: this one goes on, since nobody told the vendor.
        time.sleep(1.2)
        (batch,) = server.batches.values()
        batch.fate = Fate(polls=batch.looks + 3)
        ended(fork, tmp_path)
        check_whole(tmp_path, server, 5)
        assert server.calls["cancel"] == 0


@pytest.mark.parametrize("provider", SERVERS)
def test_two_killed_runs_of_one_config_find_their_own_batches(
    fork: ForkedNel, tmp_path: Path, provider: str
):
    folders = [tmp_path / name for name in ("one", "other")]
    with SERVERS[provider](double, fates=[Fate(polls=2)]) as server:
        for folder in folders:
            folder.mkdir()
            write(folder, server, 5)
            kill_at(fork, folder, server, "SUBMIT", "after")
        for folder in folders:
            assert [row["reward"] for row in ended(fork, folder)] == [1.0] * 5
        ledgers = [
            folder / "out" / "sums" / "batches" / "model" / "batches.jsonl" for folder in folders
        ]
        claimed = [{wave.batch for wave in read_waves(path).values()} for path in ledgers]
        assert claimed == [{batch} for batch in server.batches]
        assert sorted(server.answered.values()) == [2] * 5


def ended(fork: ForkedNel, folder: Path, code: int = 0) -> list[dict[str, Any]]:
    assert fork(folder, "eval", "run", "c.yaml", "--resume") == code, (
        folder / "nel.log"
    ).read_text()
    return rows(folder / "out" / "sums")


@pytest.mark.parametrize("provider", SERVERS)
@pytest.mark.parametrize("directly", [False, True])
def test_what_an_expired_batch_left_open_is_asked_again(
    fork: ForkedNel, tmp_path: Path, provider: str, directly: bool
):
    with SERVERS[provider](double, fates=[Fate("expired", done=0.5), Fate()]) as server:
        write(tmp_path, server, 10, finish_synchronously=directly)
        assert [row["reward"] for row in ended(fork, tmp_path)] == [1.0] * 10
        assert sorted(server.answered.values()) == [1] * 10
        sizes = [len(batch.requests) for batch in server.batches.values()]
        assert (sizes, server.direct) == (([10], 5) if directly else ([10, 5], 0))


def test_a_third_in_the_error_file_fails_with_its_cause(fork: ForkedNel, tmp_path: Path):
    script = [Rule(Say(status=400, message="not this one"), regex=r"is [012] \+"), Rule("0")]
    with OpenAIBatches(script) as server:
        write(tmp_path, server, 9)
        found = ended(fork, tmp_path, code=3)
        assert [row["status"] for row in found] == ["failed"] * 3 + ["scored"] * 6
        assert {row["failure"]["cause"] for row in found[:3]} == {"request_rejected"}
        assert "not this one" in found[0]["failure"]["message"]
        assert len(server.batches) == 1


def test_ids_in_neither_file_are_asked_again(fork: ForkedNel, tmp_path: Path):
    with OpenAIBatches(double, fates=[Fate(missing=3), Fate()]) as server:
        write(tmp_path, server, 10)
        assert [row["reward"] for row in ended(fork, tmp_path)] == [1.0] * 10
        assert [len(batch.requests) for batch in server.batches.values()] == [10, 3]


def test_a_batch_that_never_ends_is_cancelled_and_what_it_has_done_counts(
    fork: ForkedNel, tmp_path: Path
):
    with OpenAIBatches(double, fates=[Fate("never", done=0.5)]) as server:
        write(tmp_path, server, 10, max_wait=0.5)
        found = ended(fork, tmp_path, code=3)
        failed = [row for row in found if row["status"] == "failed"]
        assert [(row["failure"]["cause"], row["attempts"]) for row in failed] == [
            ("transport", 1)
        ] * 5
        assert "max_wait" in failed[0]["failure"]["message"]
        assert len(server.batches) == 1


def test_a_batch_that_cannot_be_cancelled_fails_its_rows_and_is_found_again(
    fork: ForkedNel, tmp_path: Path
):
    with OpenAIBatches(double, fates=[Fate("stuck")]) as server:
        write(tmp_path, server, 5, max_wait=0.5)
        assert fork(tmp_path, "eval", "run", "c.yaml") == 3
        assert "has not ended" in rows(tmp_path / "out" / "sums")[0]["failure"]["message"]
        (batch,) = server.batches.values()
        batch.fate = Fate()
        batch.cancel_asked = None
        ended(fork, tmp_path)
        check_whole(tmp_path, server, 5)


@pytest.mark.parametrize("provider", SERVERS)
def test_a_batch_cancelled_elsewhere_is_not_submitted_again(
    fork: ForkedNel, tmp_path: Path, provider: str
):
    with SERVERS[provider](double, fates=[Fate("cancelled", done=0.5), Fate()]) as server:
        write(tmp_path, server, 10)
        found = ended(fork, tmp_path, code=3)
        failures = [row["failure"] for row in found if row["status"] == "failed"]
        assert len(failures) == 5
        assert "cancelled by somebody else" in failures[0]["message"]
        assert len(server.batches) == 1
        # Whoever resumes the run wants the rest.
        assert [row["reward"] for row in ended(fork, tmp_path)] == [1.0] * 10
        assert sorted(server.answered.values()) == [1] * 10


def test_more_than_the_vendor_queues_goes_in_smaller_batches(fork: ForkedNel, tmp_path: Path):
    with OpenAIBatches(
        double, fates=[Fate("failed", code="token_limit_exceeded"), Fate()]
    ) as server:
        write(tmp_path, server, 10)
        assert [row["reward"] for row in ended(fork, tmp_path)] == [1.0] * 10
        assert [len(batch.requests) for batch in server.batches.values()] == [10, 5, 5]


def test_interrupted_it_cancels_and_collects_what_is_done(fork: ForkedNel, tmp_path: Path):
    pids: list[int] = []
    with OpenAIBatches(double, fates=[Fate("never", done=0.5), Fate()]) as server:

        def stop(name: str, when: str) -> None:
            if name == "poll":
                server.on_call = None
                os.kill(pids[0], signal.SIGINT)

        server.on_call = stop
        write(tmp_path, server, 10)
        code = fork(tmp_path, "eval", "run", "c.yaml", started=pids.append)
        assert code == 130, (tmp_path / "nel.log").read_text()
        assert [row["reward"] for row in rows(tmp_path / "out" / "sums")] == [1.0] * 5
        assert server.calls["cancel"] == 1
        assert [row["reward"] for row in ended(fork, tmp_path)] == [1.0] * 10
        assert sorted(server.answered.values()) == [1] * 10


def refuse(name: str, when: str) -> None:
    raise Refused(503, "down")


@pytest.mark.parametrize("provider", SERVERS)
def test_detached_it_leaves_says_so_and_is_collected_later(
    fork: ForkedNel, tmp_path: Path, provider: str
):
    with SERVERS[provider](double, fates=[Fate("never")]) as server:
        write(tmp_path, server, 10)
        config = (tmp_path / "c.yaml").read_text()
        # A key that is written out is masked in the run's own config, and nobody could ask the vendor with that.
        (tmp_path / "c.yaml").write_text(
            config.replace('"api_key": "k"', '"api_key": "${NEL_BATCH_KEY}"')
        )
        (tmp_path / ".env").write_text("NEL_BATCH_KEY=k")
        assert fork(tmp_path, "eval", "run", "c.yaml", "--detach-batch") == 5, (
            tmp_path / "nel.log"
        ).read_text()
        assert server.calls["cancel"] == 0
        assert "--resume" in (tmp_path / "nel.log").read_text()
        assert "1 left to the vendor's batches" in (tmp_path / "nel.log").read_text()
        (tmp_path / "nel.log").unlink()
        assert fork(tmp_path, "eval", "status", "-o", "out") == 0
        (batch,) = server.batches.values()
        assert f"{batch.id} of model (10 requests)" in (tmp_path / "nel.log").read_text()
        assert f"{batch.id} is under way, 0 of 10 done" in " ".join(
            (tmp_path / "nel.log").read_text().split()
        )
        batch.fate = Fate()
        assert fork(tmp_path, "eval", "status", "-o", "out") == 0
        assert f"{batch.id} ended (completed): resume" in " ".join(
            (tmp_path / "nel.log").read_text().split()
        )
        server.on_call = refuse
        assert fork(tmp_path, "eval", "status", "-o", "out") == 0
        assert "could not reach the vendor: model: HTTP 503" in " ".join(
            (tmp_path / "nel.log").read_text().split()
        )
        server.on_call = None
        # What is under way is not set aside by the way.
        assert fork(tmp_path, "eval", "run", "c.yaml") == 1
        ended(fork, tmp_path)
        check_whole(tmp_path, server, 10)


def test_costs_and_budgets_are_at_the_batch_price(fork: ForkedNel, tmp_path: Path):
    usage = {"prompt_tokens": 100, "completion_tokens": 100, "total_tokens": 200}
    with OpenAIBatches(Say("0", usage=usage)) as server:
        write(tmp_path, server, 10)
        config = json.loads((tmp_path / "c.yaml").read_text())
        config["services"]["model"] |= {
            "price": {"input": 10.0, "output": 10.0},
            "generation": {"max_tokens": 80},
        }
        # A call costs 0.001 USD in a batch; before that is known, each counts for a little over 0.0005.
        config["budget"] = {"usd": 0.0045}
        (tmp_path / "c.yaml").write_text(json.dumps(config))
        found = ended(fork, tmp_path, code=4)
        assert {row["cost_usd"] for row in found} == {0.001}
        assert 4 <= len(found) <= 9
        assert len(server.batches) == 1


@pytest.mark.parametrize(
    ("generation", "said"),
    [
        ({"max_tokens": 16, "seed": 1}, "seed: not supported by Anthropic batches"),
        (
            {"max_tokens": 16, "presence_penalty": 1},
            "presence_penalty: not supported by Anthropic batches",
        ),
        ({"max_tokens": 16, "temperature": 1.5}, "Anthropic accepts 0 to 1"),
        ({}, "Anthropic batches need max_tokens"),
    ],
)
@pytest.mark.parametrize("place", ["service", "solver"])
def test_what_anthropic_does_not_know_is_refused_before_anything_is_asked(
    fork: ForkedNel, tmp_path: Path, generation: dict[str, Any], said: str, place: str
):
    with AnthropicBatches(double) as server:
        write(tmp_path, server, 2)
        config = json.loads((tmp_path / "c.yaml").read_text())
        config["services"]["model"].pop("generation")
        owner = (
            config["services"]["model"] if place == "service" else config["benchmarks"][0]["solver"]
        )
        owner["generation"] = generation
        (tmp_path / "c.yaml").write_text(json.dumps(config))
        assert fork(tmp_path, "eval", "run", "c.yaml") == 1
        assert said in " ".join((tmp_path / "nel.log").read_text().split())
        assert not server.calls


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"solver": {"type": "tool_calling", "service": "model", "sandbox_tools": True}},
            "several requests per problem",
        ),
        ({"timeout": 60}, "max_wait"),
    ],
)
def test_what_batches_cannot_do_is_refused(
    fork: ForkedNel, tmp_path: Path, change: dict[str, Any], said: str
):
    with OpenAIBatches(double) as server:
        write(tmp_path, server, 2)
        config = json.loads((tmp_path / "c.yaml").read_text())
        config["benchmarks"][0] |= change
        (tmp_path / "c.yaml").write_text(json.dumps(config))
        assert fork(tmp_path, "eval", "run", "c.yaml") == 1
        assert said in " ".join((tmp_path / "nel.log").read_text().split())


JUDGED = """
from nemo_evaluator import benchmark, needs_judge, scorer

@benchmark(name="sums", dataset=lambda: [{"q": f"q{n}", "a": "x"} for n in range(6)], prompt="{q}", target_field="a")
@scorer
def judged(sample):
    return needs_judge(sample)
"""


def judge(seen: Seen) -> str:
    return json.dumps({"reasoning": "so", "score": 1 if "stupid question" in seen.prompt else 5})


def test_a_judge_in_batches_survives_a_kill_while_its_model_is_asked_directly(
    fork: ForkedNel, tmp_path: Path
):
    with OpenAIBatches("x") as model, OpenAIBatches(judge, fates=[Fate(polls=1)]) as judging:
        write(tmp_path, judging, 6)
        (tmp_path / "sums.py").write_text(JUDGED)
        config = json.loads((tmp_path / "c.yaml").read_text())
        config["services"] = {
            "judge": config["services"]["model"],
            "model": api(model.url, api_key="k"),
        }
        config["benchmarks"][0]["scoring"] = {
            "metrics": [{"type": "judge", "name": "good", "service": "judge"}]
        }
        (tmp_path / "c.yaml").write_text(json.dumps(config))
        kill_at(fork, tmp_path, judging, "submitted", "before")
        checked = judging.direct
        assert [row["reward"] for row in ended(fork, tmp_path)] == [1.0] * 6
        # The model was asked once for each problem, and so was the judge, besides its checks.
        assert (model.direct, len(model.batches), len(judging.batches)) == (6, 0, 1)
        assert len(next(iter(judging.batches.values())).requests) == 6
        assert judging.direct in (checked, 2 * checked)
        assert checked > 0


def test_a_vendor_out_of_reach_stops_the_run_and_its_batch_goes_on(fork: ForkedNel, tmp_path: Path):
    def gone(name: str, when: str) -> None:
        if name == "poll" and when == "before":
            raise Refused(503, "down")

    with OpenAIBatches(double) as server:
        write(tmp_path, server, 5)
        config = json.loads((tmp_path / "c.yaml").read_text())
        config["services"]["model"]["timeouts"]["outage"] = 0.5
        (tmp_path / "c.yaml").write_text(json.dumps(config))
        server.on_call = gone
        assert fork(tmp_path, "eval", "run", "c.yaml") == 2, (tmp_path / "nel.log").read_text()
        assert "--resume" in (tmp_path / "nel.log").read_text()
        server.on_call = None
        ended(fork, tmp_path)
        check_whole(tmp_path, server, 5)
        assert server.calls["cancel"] == 0
