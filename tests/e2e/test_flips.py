"""One byte flipped anywhere in a finished run: named, or harmless. Never another score, never a traceback."""

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from nel_support import SUMS

from nemo_evaluator.cli.main import nel as command
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.executors.request import RunRequest
from nemo_evaluator.launch.start import start
from nemo_evaluator.testing import ScriptedServer

# NEL_FLIPS=1000 for the long form.
FLIPS = int(os.environ.get("NEL_FLIPS", "120"))
PROBLEMS = 12
# What a run says while it runs, and what names it; no score is read from them.
TALK = {"nel_eval.log", "nel_run.json"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A finished run, whose server goes on answering (always wrongly: a step that is asked again unseen would show)."""
    root = tmp_path_factory.mktemp("flips")
    before, environ = Path.cwd(), dict(os.environ)
    os.environ["XDG_DATA_HOME"] = str(root / "data")
    os.chdir(root)
    (root / "sums.py").write_text(SUMS.format(size=PROBLEMS))
    with ScriptedServer("6") as server:
        service = {
            "type": "api",
            "url": f"{server.url}/chat/completions",
            "protocol": "chat_completions",
            "model": "m",
        }
        config = {
            "services": {"model": service},
            "benchmarks": [{"name": "sums.py", "solver": {"type": "simple", "service": "model"}}],
            "output": {"dir": "good", "report": ["markdown", "json"], "progress_interval": 1},
        }
        (root / "c.yaml").write_text(json.dumps(config))
        assert start(RunRequest(config_file="c.yaml", no_progress=True)) == 0
        yield root / "good"
    os.chdir(before)
    os.environ.clear()
    os.environ.update(environ)


def _say(*words: str) -> tuple[int, str]:
    """A command's exit code and words; anything but an error for users is a bug."""
    done = CliRunner().invoke(command, list(words))
    error = done.exception
    if error is not None and not isinstance(error, SystemExit):
        assert isinstance(error, NelError), (words, repr(error))
        return error.exit_code, error.message
    return done.exit_code, done.output


def _scores(folder: Path) -> Any:
    (path,) = (folder / "sums").glob("eval-*.json")
    bundle = json.loads(path.read_text())
    return (
        bundle["benchmark"]["scores"]["pass@1"],
        bundle["benchmark"]["coverage"],
        bundle["validity"],
    )


def _table(folder: Path) -> tuple[int, str]:
    return _say("report", str(folder), "-f", "csv")


def test_flips(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(finished.parent)
    whole, table = _scores(finished), _table(finished)
    files = [
        path for path in sorted(finished.rglob("*")) if path.is_file() and path.name not in TALK
    ]
    sizes = [path.stat().st_size for path in files]
    rng = random.Random(11)
    named = 0
    for number in range(FLIPS):
        copy = finished.parent / "flipped"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(finished, copy)
        # Every file gets its share: those in which scores stand are small.
        source = files[number % len(files)] if number % 2 else rng.choices(files, sizes)[0]
        target = copy / source.relative_to(finished)
        data = bytearray(target.read_bytes())
        at = rng.randrange(len(data))
        data[at] ^= 1 << rng.randrange(8)
        target.write_bytes(data)
        where = f"flip {number}: {source.name}, byte {at}"
        code, said = _say("check", str(copy), "--no-strict")
        named += code == 1
        # The journal is looked at by resume; the index holds nothing that a score is read from.
        if source.name not in ("journal.jsonl", "index.sqlite"):
            assert code == 1, f"{where} was not named by check\n{said}"
            assert source.name in said or "SHA256SUMS" in said, (where, said)
        read, shown = _table(copy)
        # A flipped name in the checkpoint adds a benchmark that never ran; no score is another one.
        assert read == 1 or set(table[1].splitlines()) <= set(shown.splitlines()), where
        try:
            again = start(
                RunRequest(
                    config_file=str(copy / "full_config.yaml"), resume=True, no_progress=True
                )
            )
        except NelError:
            assert source.name == "full_config.yaml", where
            continue
        if source.name != "full_config.yaml":
            assert (again, _scores(copy)) == (0, whole), where
            assert _say("check", str(copy), "--no-strict")[0] == 0, where
    assert named
