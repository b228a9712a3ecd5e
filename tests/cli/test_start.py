"""Starting takes a blink, and the public face is what it says."""

import platform
import subprocess
import sys
from pathlib import Path

import click
import pytest

import nemo_evaluator

HEAVY = (
    "datasets",
    "pandas",
    "pyarrow",
    "scipy",
    "numpy",
    "aiohttp",
    "pydantic",
    "yaml",
    "rich",
    "jinja2",
    "asyncio",
    "starlette",
    "orjson",
    "importlib.metadata",
)


def _loaded(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_help_loads_nothing_heavy() -> None:
    run = "from nemo_evaluator.cli.main import nel\nnel.main(standalone_mode=False)"
    code = f"import sys\nsys.argv = ['nel', '--help']\n{run}"
    loaded = _loaded(code)
    assert not loaded & set(HEAVY)
    ours = {name for name in loaded if name.startswith("nemo_evaluator.")}
    rooms = {name.split(".")[1] for name in ours}
    assert rooms <= {"cli", "core", "_version"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not _loaded("import nemo_evaluator") & set(HEAVY)


@pytest.mark.parametrize(
    ("command", "needless"),
    [
        ("runs", {"asyncio", "numpy", "nemo_evaluator.servers.process"}),
        ("cache", {"pydantic", "nemo_evaluator.sandbox"}),
        ("models", {"nemo_evaluator.sandbox"}),
        ("check", {"asyncio", "jinja2", "yaml"}),
        ("compare", {"nemo_evaluator.decisions.gate"}),
        ("report", {"asyncio", "sqlite3"}),
    ],
)
def test_a_command_loads_nothing_of_the_others(command: str, needless: set[str]) -> None:
    assert not _loaded(f"import nemo_evaluator.cli.{command}") & needless


def test_every_public_name_resolves() -> None:
    for name in nemo_evaluator.__all__:  # type: ignore[attr-defined]
        assert getattr(nemo_evaluator, name) is not None
    assert set(nemo_evaluator.__all__) <= set(dir(nemo_evaluator))  # type: ignore[attr-defined]


def test_every_command_can_be_loaded_and_helps() -> None:
    nel = str(Path(sys.executable).with_name("nel"))
    from nemo_evaluator.cli.main import CONTENTS
    from nemo_evaluator.cli.main import nel as group

    below = [[word, name] for word in ("eval", "judge") for name in CONTENTS[f"nel {word}"]]
    for words in [[name] for name in group.list_commands(click.Context(group))] + below:
        done = subprocess.run([nel, *words, "--help"], capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr)
        assert "Usage: nel" in done.stdout


def test_the_version_is_said() -> None:
    nel = str(Path(sys.executable).with_name("nel"))
    done = subprocess.run([nel, "--version"], capture_output=True, text=True, check=True)
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    assert done.stdout == f"nel {nemo_evaluator.__version__} ({machine})\n"


def test_the_help_shows_every_command_once() -> None:
    from nemo_evaluator.cli.main import CONTENTS, nel

    shown = [
        name for title, names in CONTENTS.items() if not title.startswith("nel ") for name in names
    ]
    assert sorted(shown) == sorted(nel.list_commands(click.Context(nel)))
    assert set(nel.commands) < set(shown)
