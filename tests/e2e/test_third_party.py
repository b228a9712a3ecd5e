"""A package of somebody else adds a solver, a sandbox, a scheme, a scorer, an interceptor and an exporter."""

from __future__ import annotations

import json
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from nel_support import Serve, api

UV = Path(sys.executable).with_name("uv")
PLUGIN = Path(__file__).parents[1] / "support" / "nel_plugin"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has what this one has, and the package, installed as its users would."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder / "venv")
    python = folder / "venv" / "bin" / "python"
    ours = [*site.getsitepackages(), *(path for path in sys.path if path.endswith("src"))]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in ours]
    next((folder / "venv" / "lib").glob("python*/site-packages")).joinpath("ours.pth").write_text(
        "".join(lines)
    )
    shutil.copytree(PLUGIN, folder / "source")
    words = [
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--no-build-isolation",
        "--python",
        python,
    ]
    done = subprocess.run([UV, *words, folder / "source"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return python


def nel(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code = "from nemo_evaluator.cli.main import main; main()"
    return subprocess.run(
        [python, "-c", code, *words], cwd=folder, capture_output=True, text=True, timeout=120
    )


def config(url: str) -> dict[str, Any]:
    return {
        "services": {"model": api(url, interceptors=[{"name": "stamp", "config": {"ink": "red"}}])},
        "benchmarks": [
            {
                "name": "riddle://3",
                "params": {"hard": True},
                "solver": {"type": "shout", "service": "model", "volume": 3},
                "sandbox": {"type": "hut", "material": "bricks"},
                "scoring": {
                    "metrics": [{"type": "scorer", "name": "whisper"}],
                    "primary": "whisper",
                },
            }
        ],
        "output": {"dir": "out", "export": [{"type": "scroll", "seal": "wax"}]},
    }


def test_one_config_uses_all_six(python: Path, serve: Serve, tmp_path: Path) -> None:
    server = serve("quiet")
    (tmp_path / "c.yaml").write_text(json.dumps(config(server.url)))
    done = nel(python, tmp_path, "eval", "run", "c.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1.0000" in done.stdout and "VALID" in done.stdout
    sent = [request.body for request in server.requests]
    assert {body["user"] for body in sent} == {"red"}
    assert {body["messages"][0]["content"] for body in sent} == {
        f"HARD RIDDLE {n}!!! bricks" for n in range(3)
    }
    assert (tmp_path / "out" / "scroll.txt").read_text() == "wax: riddles\n"


@pytest.mark.parametrize(
    ("right", "wrong", "hint"),
    [
        ('"volume"', '"volum"', "did you mean 'volume'?"),
        ('"bricks"', '"brickss"', "did you mean 'bricks'?"),
        ('"hard"', '"hart"', "did you mean 'hard'?"),
        ('"name": "whisper"', '"name": "whispe"', "did you mean 'whisper'?"),
        ('"ink"', '"inc"', "did you mean 'ink'?"),
        ('"seal"', '"seel"', "did you mean 'seal'?"),
        ('"type": "shout"', '"type": "shot"', "did you mean 'shout'?"),
    ],
)
def test_wrong_settings_are_refused_with_line_and_suggestion(
    python: Path, tmp_path: Path, right: str, wrong: str, hint: str
) -> None:
    text = json.dumps(config("http://127.0.0.1:1/v1"), indent=1)
    assert right in text
    (tmp_path / "c.yaml").write_text(text.replace(right, wrong, 1))
    done = nel(python, tmp_path, "config", "check", "c.yaml")
    line = 1 + text[: text.index(right)].count("\n")
    assert done.returncode == 1
    assert hint in done.stderr and f"c.yaml:{line}:" in done.stderr


def test_all_six_stand_in_the_json_schema(python: Path, tmp_path: Path) -> None:
    done = nel(python, tmp_path, "config", "schema")
    assert done.returncode == 0, done.stderr
    for word in (
        "shout",
        "volume",
        "hut",
        "material",
        "riddle",
        "hard",
        "whisper",
        "stamp",
        "ink",
        "scroll",
        "seal",
    ):
        assert f'"{word}' in done.stdout or f"{word}:" in done.stdout, word
