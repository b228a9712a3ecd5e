"""The set-up script says what is wrong and what mends it; the pins cover what is installed."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


def set_up(**settings: str) -> str:
    words = ["bash", "scripts/setup.sh", "local"]
    done = subprocess.run(
        words, cwd=ROOT, env=os.environ | settings, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    return done.stderr


def command(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_that_is_too_old_is_named(tmp_path: Path) -> None:
    old = command(
        tmp_path / "old", 'if [ "$1" = --version ]; then echo Python 3.9.2; else exit 1; fi'
    )
    said = set_up(PYTHON=old, VENV=str(tmp_path / "venv"))
    assert "is Python 3.9.2" in said
    assert "fix: install one and name it: make PYTHON=" in said
    assert not (tmp_path / "venv").exists()


def test_no_python_at_all(tmp_path: Path) -> None:
    said = set_up(PYTHON="python3.99", VENV=str(tmp_path / "venv"))
    assert "python3.99 is not installed\n  fix: apt-get install python3" in said


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    assert "is no virtual environment\n  fix: name another" in set_up(VENV=str(tmp_path))
    assert (tmp_path / "mine").read_text() == "kept"


def test_an_environment_of_an_old_python_is_left_alone(tmp_path: Path) -> None:
    command(
        tmp_path / "bin" / "python",
        'case "$1$2" in -c) ;; --version) echo Python 3.9.2 ;; *) exit 1 ;; esac',
    )
    said = set_up(VENV=str(tmp_path))
    assert "has Python 3.9.2" in said
    assert "fix: make clean" in said


@pytest.mark.parametrize(
    ("complaint", "fix"),
    [
        ("Temporary failure in name resolution", "connect to the network"),
        ("OSError: No space left on device", "free some space"),
        ("Permission denied: /opt/x", "clone into a folder"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "the index serves other files"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED]", "name your site's certificates"),
    ],
)
def test_what_a_command_complained_of_decides_the_fix(complaint: str, fix: str) -> None:
    words = [
        "bash",
        "-c",
        '. scripts/fail.sh; attempt sh -c "echo \\"$0\\"; exit 3"; echo unreachable',
        complaint,
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert complaint in done.stderr
    assert f"fix: {fix}" in done.stderr


def test_every_dependency_is_pinned_and_no_index_is_named() -> None:
    text = (ROOT / "scripts" / "requirements.txt").read_text()
    assert "://" not in text
    pinned = set(re.findall(r"^([a-z0-9.-]+)==", text, re.MULTILINE))
    assert len(re.findall(r"--hash=sha256:", text)) > len(pinned) > 100
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(line for name in ("dev", "local", "parts") for line in extras[name]),
    ]
    names = {re.sub(r"[-_.]+", "-", Requirement(line).name).lower() for line in wanted} - {
        project["name"]
    }
    assert names <= pinned, f"make lock pins {sorted(names - pinned)}"
