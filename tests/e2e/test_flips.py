"""One byte flipped anywhere in a finished run: named, or harmless. Never another score, never a traceback."""

import itertools
import json
import os
import random
import re
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


# Every command that reads a run, and what of its output is a score or a verdict.
COMMANDS: dict[str, tuple[str, ...]] = {
    "check": ("check", "flipped", "--no-strict", "--json"),
    "report": ("report", "flipped", "-f", "csv"),
    "show": ("show", "flipped", "--json"),
    "failed": ("show", "flipped", "--failed"),
    "harvest": ("harvest", "flipped", "-f", "json"),
    "compare": ("compare", "good", "flipped", "--json", "--no-report"),
    "baseline": ("compare", "flipped", "good", "--json", "--no-report"),
    "gate": ("gate", "good", "flipped", "--policy", "policy.yaml"),
    "status": ("eval", "status", "-o", "flipped", "--json"),
    "power": ("power", "flipped", "-d", "0.1"),
}
_NUMBERS = {
    "check": re.compile(r'"status":"[A-Z]+"'),
    "report": re.compile(r"^sums,.*$", re.MULTILINE),
    "show": re.compile(r'"reward":[^,]*'),
    "failed": re.compile(r"has no failed rows"),
    "harvest": re.compile(r'"(?:score|stderr|status)": [^,]*'),
    "compare": re.compile(r'"(?:verdict|mean_difference|score)":[^,}]*'),
    "baseline": re.compile(r'"(?:verdict|mean_difference|score)":[^,}]*'),
    "gate": re.compile(r"^GO |0\.\d+", re.MULTILINE),
    "status": re.compile(r'"(?:scored|failed|mean_reward|status)":[^,}]*'),
    "power": re.compile(r"0\.\d+|\d+ (?:problems|repeats)"),
}
# 20 positions of each file, the commands in turn; every command at every position with NEL_TEST_ALL.
POSITIONS = 20


# What commands print about damage without the name of the flipped file.
_NOTES = ("SHA256SUMS", "INVALID", "that cannot be read")


def _numbers(command_name: str, text: str) -> list[str]:
    return _NUMBERS[command_name].findall(text)


def _flipped(finished: Path, file: Path, rng: random.Random) -> int:
    """Make a copy of the run in which one bit of a file is another one; returns the position."""
    copy = finished.parent / "flipped"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(finished, copy)
    target = copy / file.relative_to(finished)
    data = bytearray(target.read_bytes())
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    target.write_bytes(data)
    return at


def test_every_command_says_the_same_or_says_why_not(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished.parent)
    Path("policy.yaml").write_text("version: 1\ndefaults: {max_drop: 0.5}\n")
    shutil.rmtree("flipped", ignore_errors=True)
    shutil.copytree(finished, "flipped")
    expected = {name: _say(*words) for name, words in COMMANDS.items()}
    for name, (_, text) in expected.items():
        assert _numbers(name, text), (name, text)
    rng = random.Random(23)
    turns = itertools.cycle(COMMANDS)
    wrong: list[str] = []
    for file in sorted(finished.rglob("*")):
        if not file.is_file() or not file.stat().st_size:
            continue
        for _ in range(POSITIONS):
            at = _flipped(finished, file, rng)
            for name in COMMANDS if os.environ.get("NEL_TEST_ALL") else [next(turns)]:
                code, text = _say(*COMMANDS[name])
                if any(note in text for note in (file.name, *_NOTES)):
                    continue
                same_numbers = _numbers(name, text) == _numbers(name, expected[name][1])
                if code != expected[name][0] or not same_numbers:
                    wrong.append(f"{file.name}, byte {at}: {name} exits with {code}: {text[:600]}")
    assert not wrong, "\n".join(wrong)
