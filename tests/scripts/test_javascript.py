"""The rules for the viewer's JavaScript and CSS: what they refuse, and what they leave alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATIC = Path("src/nemo_evaluator/view/static")
PARTS_DIR = Path(os.environ.get("NEL_PARTS_DIR") or ROOT / ".parts")
GOOD = "/** Returns a number. */\nexport function answer() {\n  return 42;\n}\n"

pytestmark = pytest.mark.needs("biome")


def check(project: Path, verb: str = "check") -> subprocess.CompletedProcess[str]:
    """Run the script on a project that has nothing but it and some static files."""
    scripts = project / "scripts"
    scripts.mkdir(exist_ok=True)
    for name in ("javascript.sh", "fail.sh", "biome.json"):
        shutil.copy(ROOT / "scripts" / name, scripts)
    environment = {
        **os.environ,
        "NEL_PARTS_DIR": str(PARTS_DIR),
        "VENV": sys.prefix,
    }
    command = ["bash", "scripts/javascript.sh", verb]
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    vendor = tmp_path / STATIC / "vendor"
    vendor.mkdir(parents=True)
    (vendor / "packed.js").write_text(f"var a=1;var b=a==1?2:a==3?4:5;{'x();' * 60}\n")
    (tmp_path / STATIC / "good.js").write_text(GOOD)
    return tmp_path


def test_plain_code_passes_and_vendored_code_is_not_looked_at(project: Path) -> None:
    done = check(project)
    assert done.returncode == 0, done.stdout + done.stderr
    packed = project / STATIC / "vendor" / "packed.js"
    before = packed.read_bytes()
    assert check(project, "fix").returncode == 0
    assert packed.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "bad.js",
            'export const kind = n => (n > 1 ? "many" : n > 0 ? "one" : "none");\n',
            "noNestedTernary",
        ),
        ("bad.js", "export const same = (a, b) => a == b;\n", "noDoubleEquals"),
        ("bad.js", "function lost() {}\n", "noUnusedVariables"),
        ("bad.js", "export function set() {\n  total = 1;\n}\n", "noUndeclaredVariables"),
        ("bad.js", "export const a = 1; export const b = 2;\n", "format"),
        ("bad.css", "p { color: red; margin: 0 }\n", "format"),
        ("bad.js", f"export const text = `{'x' * 100}`;\n", "lines are longer than 100 characters"),
    ],
)
def test_dense_code_is_refused(project: Path, name: str, text: str, complaint: str) -> None:
    (project / STATIC / name).write_text(text, encoding="utf-8")
    done = check(project)
    assert done.returncode != 0
    assert complaint in done.stdout + done.stderr


def test_lines_are_measured_in_characters_not_bytes(project: Path) -> None:
    line = f"export const text = `{'ü' * 77}`;"
    assert len(line) == 100
    (project / STATIC / "wide.js").write_text(f"{line}\n", encoding="utf-8")
    done = check(project)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_script_says_what_it_can_do(project: Path) -> None:
    done = check(project, "polish")
    assert done.returncode == 1
    assert "fix: bash scripts/javascript.sh check, fix, find or install" in done.stderr
