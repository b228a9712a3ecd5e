"""``nel noise``: a model against itself, and what a comparison says of it."""

import asyncio
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from nel_support import Nel

from nemo_evaluator.cli.main import nel
from nemo_evaluator.runs.bundle import newest_bundle
from nemo_evaluator.runs.calibration import tie
from nemo_evaluator.testing import ScriptedServer, Seen


async def noise(
    folder: Path, answer: Callable[[Seen], str], **service: Any
) -> tuple[dict[str, Any], list[Any]]:
    """The report, and the bodies of the requests."""
    folder.mkdir(exist_ok=True)
    temperatures = []

    def heard(seen: Seen) -> str:
        temperatures.append(seen.body.get("temperature"))
        return answer(seen)

    async with ScriptedServer(heard) as server:
        api = {
            "type": "api",
            "url": server.url,
            "protocol": "chat_completions",
            "model": "m",
            **service,
        }
        bench = {"name": "quickstart", "solver": {"type": "simple", "service": "model"}}
        config = {
            "services": {"model": api},
            "benchmarks": [bench],
            "output": {"dir": str(folder / "out"), "report": []},
        }
        (folder / "c.yaml").write_text(json.dumps(config))
        args = ["noise", str(folder / "c.yaml"), "-n", "6", "--concurrency", "1", "4", "--json"]
        done = await asyncio.to_thread(CliRunner().invoke, nel, args, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    stored = json.loads((folder / "out" / "quickstart" / "noise.json").read_text())
    assert stored == json.loads(done.stdout)[0]
    return stored, temperatures


async def test_a_steady_model_does_not_differ_from_itself(tmp_path: Path) -> None:
    found, temperatures = await noise(
        tmp_path / "a", lambda seen: "4", generation={"temperature": 0.7}
    )
    assert set(temperatures) == {0.0} and len(temperatures) == 24
    assert (
        found["again"]
        == found["again_high"]
        == found["other_level"]
        == {"problems": 6, "answers": 0.0, "verdicts": 0.0, "score": 0.0}
    )
    assert found["levels"] == [1, 4]
    rate = found["flip_rate"]
    assert (rate["value"], rate["ci_lower"], rate["problems"]) == (0.0, 0.0, 6)
    assert 0.1 < rate["ci_upper"] < 0.25


async def test_an_unsteady_one_does_and_the_cache_does_not_hide_it(tmp_path: Path) -> None:
    numbers = itertools.count()
    cache = {"mode": "write", "dir": str(tmp_path / "cache")}
    found, _ = await noise(
        tmp_path / "b", lambda seen: f"answer {next(numbers)}", proxy={"cache": cache}
    )
    assert found["again"]["answers"] == 1.0 and found["again"]["problems"] == 6


async def test_it_holds_for_a_run_of_that_config_and_for_no_other(tmp_path: Path) -> None:
    await noise(tmp_path, lambda seen: "4", generation={"temperature": 0.7})
    config = json.loads((tmp_path / "c.yaml").read_text())
    async with ScriptedServer("4") as server:
        config["services"]["model"]["url"] = server.url
        for temperature, holds in ((0.7, True), (0.2, False)):
            config["services"]["model"]["generation"]["temperature"] = temperature
            (tmp_path / "c.yaml").write_text(json.dumps(config))
            # Asked elsewhere: the port is no part of what a service is.
            await asyncio.to_thread(
                Nel(tmp_path), "eval", "run", "c.yaml", "--max-problems", "6", "--resume"
            )
            run = newest_bundle(tmp_path / "out" / "quickstart")
            assert run is not None
            assert (run.noise["measured_by"] == tie(run.config["fingerprints"])) is holds, (
                temperature
            )
