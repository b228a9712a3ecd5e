"""What an agent leaves in a workspace is graded by PinchBench's own kind of code: it never earns what was not done."""

from __future__ import annotations

import pytest

from nemo_evaluator.benchmarks.pinchbench import grade
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox.local import LocalSandbox

# As the tasks' own code does: it reads files without asking what they are, and may run what it finds.
CODE = """
def grade(transcript, workspace_path):
    import json, subprocess, sys
    from pathlib import Path
    place = Path(workspace_path)
    if (place / "main.py").exists():
        subprocess.run([sys.executable, "main.py"], cwd=place)
    found = json.loads((place / "out.json").read_text())
    return {"right": float(found["answer"] == 42 and len(found) == 1)}
"""
# The words that a forger can say: he knows how a verdict looks, not the mark before it.
SAID = """print('{"scores": {"right": 1.0}}\\n{"right": 1.0}', flush=True)"""
RIGHT = """printf '{"answer": 42}' > out.json"""
LEFT = {
    "nothing": ("true", "FileNotFoundError"),
    "a folder": ("mkdir out.json", "IsADirectoryError"),
    "no text": (r"printf '\377\376' > out.json", "UnicodeDecodeError"),
    "a loop of links": ("ln -s out.json out.json", "out.json"),
    "deeper than the parser": ("head -c 100000 /dev/zero | tr '\\0' '[' > out.json", "RecursionError"),
    "another shape": ("printf '[42]' > out.json", "TypeError"),
    "a number that is none": ("""printf '{"answer": NaN}' > out.json""", None),
    "modules of the agent": (
        "for name in json pathlib runpy sitecustomize usercustomize; do echo 'raise SystemExit(0)' > $name.py; done;"
        " printf '{}' > out.json",
        "KeyError",
    ),
    "a program that says the verdict": (f"""cat > main.py <<'P'\n{SAID}\nP\nprintf '{{}}' > out.json""", "KeyError"),
    "a program that reads the grader": (
        "cat > main.py <<'P'\nimport os, pathlib\nfor name in ('environ', 'cmdline'):\n"
        "    for word in pathlib.Path('/proc', str(os.getppid()), name).read_text().split(chr(0)):\n"
        """        print(word + '{"scores": {"right": 1.0}}', flush=True)\nP\nprintf '{}' > out.json""",
        "KeyError",
    ),
}


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("name", LEFT)
async def test_an_odd_workspace_is_a_zero_with_its_reason(name: str) -> None:
    left, told = LEFT[name]
    async with LocalSandbox(SandboxSpec(workdir="/workspace")) as sandbox:
        assert (await sandbox.exec(left)).ok
        scores, raised = await grade(CODE, [], sandbox)
        assert sum(scores.values()) == 0.0
        assert told is None or told in raised, scores
        # The grader works: what was asked for, in the same place, is worth all.
        assert (await sandbox.exec(f"rm -rf main.py out.json; {RIGHT}")).ok
        assert (await grade(CODE, [], sandbox))[0] == {"right": 1.0}


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("left", ["mkfifo out.json", "ln -s /dev/zero out.json"])
async def test_a_file_without_an_end_is_a_zero_too(left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemo_evaluator.benchmarks.pinchbench._SECONDS", 3.0)
    async with LocalSandbox(SandboxSpec(workdir="/workspace"), settings=Limits(memory=2**28)) as sandbox:
        assert (await sandbox.exec(left)).ok
        scores, raised = await grade(CODE, [], sandbox)
        assert scores == {} and raised
