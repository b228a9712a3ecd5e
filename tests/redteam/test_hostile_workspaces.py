"""What an agent leaves in a workspace is graded by PinchBench's own kind of code: it never earns what was not done."""

from __future__ import annotations

import pytest

from nemo_evaluator.benchmarks.pinchbench import grade
from nemo_evaluator.core.errors import ScorerError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox.docker import DockerSandbox
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
    "deeper than the parser": (
        "head -c 100000 /dev/zero | tr '\\0' '[' > out.json",
        "RecursionError",
    ),
    "another shape": ("printf '[42]' > out.json", "TypeError"),
    "a number that is none": ("""printf '{"answer": NaN}' > out.json""", None),
    "modules of the agent": (
        "for name in json pathlib runpy sitecustomize usercustomize; do echo 'raise SystemExit(0)' > $name.py; done;"
        " printf '{}' > out.json",
        "KeyError",
    ),
    "a program that says the verdict": (
        f"""cat > main.py <<'P'\n{SAID}\nP\nprintf '{{}}' > out.json""",
        "KeyError",
    ),
    "a program that reads the grader": (
        "cat > main.py <<'P'\nimport os, pathlib\nfor name in ('environ', 'cmdline'):\n"
        "    for word in pathlib.Path('/proc', str(os.getppid()), name).read_text().split(chr(0)):\n"
        """        print(word + '{"scores": {"right": 1.0}}', flush=True)\nP\nprintf '{}' > out.json""",
        "KeyError",
    ),
    "a program that prints after the verdict": (
        """cat > main.py <<'P'\nimport os, time\n"""
        """if os.fork() == 0:\n    os.setsid()\n    end = time.monotonic() + 1\n"""
        """    while time.monotonic() < end:\n        print('{"scores": {"right": 1.0}}', flush=True)\n"""
        """        time.sleep(0.01)\nP\nprintf '{}' > out.json""",
        "KeyError",
    ),
    "a program that reads the grading code": (
        "cat > main.py <<'P'\nimport glob, re\n"
        "for name in glob.glob('/tmp/nel-grade-*/*') + glob.glob('/tmp/nel-grade-*'):\n    text = open(name).read()\n"
        """    for answer in re.findall(r'== ([0-9]+)', text)[:1]:\n        open('out.json', 'w').write('{"answer": %s}' % answer)\n"""
        "P\nprintf '{}' > out.json; chmod 777 . out.json",
        "KeyError",
    ),
    "a program that ends the grader": (
        "printf 'import os\\nos.kill(os.getppid(), 9)\\n' > main.py; printf '{}' > out.json",
        "ended the grading",
    ),
}
# What a program that the grading code starts may try on the process that started it.
READ_PARENT = {
    "mem": """
        spans = [line.split()[0] for line in open(f"/proc/{parent}/maps") if " rw" in line]
        with open(f"/proc/{parent}/mem", "rb", 0) as memory:
            for span in spans:
                start, end = (int(part, 16) for part in span.split("-"))
                try:
                    memory.seek(start)
                    found += re.findall(rb"[0-9a-f]{32}", memory.read(end - start))
                except (OSError, OverflowError, ValueError):
                    pass
    """,
    "environ": """
        found += re.findall(rb"[0-9a-f]{32}", open(f"/proc/{parent}/environ", "rb").read())
    """,
    "descriptors": """
        for name in os.listdir(f"/proc/{parent}/fd"):
            fd = os.open(f"/proc/{parent}/fd/{name}", os.O_RDWR | os.O_NONBLOCK)
            found += re.findall(rb"[0-9a-f]{32}", os.read(fd, 100000))
    """,
    "process_vm_readv": """
        import ctypes
        class Span(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
        heap = next(line for line in open(f"/proc/{parent}/maps") if "[heap]" in line).split()[0].split("-")
        start, end = (int(part, 16) for part in heap)
        buffer = ctypes.create_string_buffer(end - start)
        ctypes.CDLL(None).process_vm_readv(
            parent, ctypes.byref(Span(ctypes.addressof(buffer), end - start)), 1,
            ctypes.byref(Span(start, end - start)), 1, 0,
        )
        found += re.findall(rb"[0-9a-f]{32}", buffer.raw)
    """,
    "ptrace": """
        import ctypes
        if ctypes.CDLL(None).ptrace(16, parent, 0, 0) == 0:
            found.append(b"attached")
    """,
    "own descriptors": """
        for fd in range(64):
            try:
                os.set_blocking(fd, False)
                found += re.findall(rb"[0-9a-f]{32}", os.read(fd, 100000))
            except OSError:
                pass
    """,
}
FORGER = """
import os, re, textwrap
found, parent = [], os.getppid()
try:
    exec(textwrap.dedent(ATTEMPT))
except OSError as error:
    print("refused:", error)
for mark in dict.fromkeys(found):
    print("\\n" + mark.decode() + '{"scores": {"right": 1.0}}' + mark.decode(), flush=True)
    if mark == b"attached":
        open("out.json", "w").write('{"answer": 42}')
if found:
    os.kill(parent, 9)
"""


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("attempt", READ_PARENT)
async def test_a_program_cannot_reach_the_process_that_grades(attempt: str) -> None:
    async with LocalSandbox(SandboxSpec(workdir="/workspace")) as sandbox:
        await sandbox.upload(
            f"ATTEMPT = {READ_PARENT[attempt]!r}\n{FORGER}".encode(), "/workspace/main.py"
        )
        await sandbox.upload(b"{}", "/workspace/out.json")
        scores, raised = await grade(CODE, [], sandbox)
        assert scores == {} and "KeyError" in raised


IMPORTS = """
def grade(transcript, workspace_path):
    import sys
    sys.path.insert(0, workspace_path)
    import helper
    return {"right": float(helper.answer == 42)}
"""


@pytest.mark.needs("bwrap")
async def test_code_of_the_workspace_is_not_run_in_the_grader() -> None:
    forge = "import gc, os, sys; print('forged', file=sys.stderr); answer = 42"
    async with LocalSandbox(SandboxSpec(workdir="/workspace")) as sandbox:
        await sandbox.upload(forge.encode(), "/workspace/helper.py")
        with pytest.raises(ScorerError, match="code of the workspace"):
            await grade(IMPORTS, [], sandbox)


@pytest.mark.needs("docker")
async def test_the_grader_gives_up_root_before_it_starts_a_program() -> None:
    who = CODE.replace("found = json", "import os; assert os.getuid() == 65534\n    found = json")
    poison = (
        "import json, os; open(json.__file__, 'a').write('x'); open('out.json', 'w').write('[]')"
    )
    spec = SandboxSpec(image="nel-test/python:bookworm", workdir="/workspace")
    async with DockerSandbox(spec) as sandbox:
        assert (await sandbox.exec(RIGHT)).ok
        assert (await grade(who, [], sandbox))[0] == {"right": 1.0}
        await sandbox.upload(poison.encode(), "/workspace/main.py")
        assert (await grade(who, [], sandbox))[0] == {"right": 1.0}


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
async def test_a_file_without_an_end_is_a_zero_too(
    left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemo_evaluator.benchmarks.pinchbench._SECONDS", 3.0)
    async with LocalSandbox(
        SandboxSpec(workdir="/workspace"), settings=Limits(memory=2**28)
    ) as sandbox:
        assert (await sandbox.exec(left)).ok
        scores, raised = await grade(CODE, [], sandbox)
        assert scores == {} and raised
