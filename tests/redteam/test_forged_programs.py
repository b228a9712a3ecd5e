"""A wrong program never scores, whatever it does, stops nothing, and leaves nothing for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import CodeType

import pytest
import yaml
from click.testing import CliRunner

from nemo_evaluator.cli.main import nel
from nemo_evaluator.config import DockerSandbox, LocalSandbox
from nemo_evaluator.core.errors import TamperError
from nemo_evaluator.core.files import iter_jsonl
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.sandbox.manager import SandboxManager
from nemo_evaluator.scoring import ScorerInput, code, code_sandbox_async
from nemo_evaluator.testing import Say, ScriptedServer, Seen

_TEXTS = {
    part.partition("\n")[0]: part.partition("\n")[2]
    for part in Path(__file__)
    .with_name("forged_programs.txt")
    .read_text(encoding="utf-8")
    .split("#### ")[1:]
}
_SAY = "\nfor mark in marks(text): say(mark + '\\n'); say(mark + ' 74323a73363a70617373656473303a\\n')\nos._exit(0)\n"
RIGHT = {name: text for name, text in _TEXTS.items() if name.startswith("right: ")}
SLOW = [name for name in _TEXTS if name.startswith("slow: ")]
FORGED = [name for name in _TEXTS if name not in (*RIGHT, *SLOW, "prelude")]
PLAIN = RIGHT["right: plain"]
STUB = 'def scaled(value):\n    return value * 2\n\n\ndef area(width, height):\n    """The area of a rectangle."""\n'
CHECK = (
    "def check(candidate):\n    assert candidate(3, 4) == 12\n    import random\n    for _ in range(3):\n"
    "        a, b = random.randint(10, 99), random.randint(10, 99)\n        assert candidate(a, b) == a * b\n"
    "        assert scaled(candidate(a, b)) == scaled(a * b)\n"
)
ASSERTS = [
    "assert area(3, 4) == 12",
    "assert abs(area(5, 2) - 10) < 1e-6",
    "assert isclose(area(30, 7), 210)",
    "assert math.isclose(area(31, 7), 217)",
    "assert sorted([area(1, 7), area(2, 9)]) == [7, 18] and round(area(2, 3), 2) == 6 and area(9, 9) in (81, 81.0)",
]
_HUMANEVAL = {"task_id": "x", "entry_point": "area", "prompt": STUB, "test": CHECK}
_MBPP = {"task_id": 1, "text": "area", "code": PLAIN, "test_list": ASSERTS, "test_setup_code": ""}
SHAPES: dict[str, JsonDict] = {
    "humaneval": load_object("nemo_evaluator.benchmarks.humaneval:prepare")(_HUMANEVAL),
    "mbpp": load_object("nemo_evaluator.benchmarks.mbpp:prepare")(_MBPP),
}


def forged(name: str) -> str:
    """The text of a program."""
    text = (
        _TEXTS["prelude"] + _TEXTS[name] + _SAY if name.startswith("marker in ") else _TEXTS[name]
    )
    return text if "def area(" in text else f"{text}\ndef area(width, height):\n    return -1\n"


@pytest.fixture(
    params=[
        pytest.param("local", marks=pytest.mark.needs("bwrap")),
        pytest.param("docker", marks=pytest.mark.needs("docker")),
    ]
)
async def manager(request: pytest.FixtureRequest) -> AsyncIterator[SandboxManager]:
    """Few sandboxes, so that programs follow one another in them."""
    made: SandboxManager
    if request.param == "local":
        made = SandboxManager(LocalSandbox(type="local", memory="512m", concurrency=2), "test")
    else:
        image = "nel-test/python:bookworm"
        config = DockerSandbox(
            type="docker", memory="512m", image=image, network="none", concurrency=2
        )
        made = SandboxManager(config, "test")
    yield made
    await made.close()


async def verdict(
    manager: SandboxManager, program: str, metadata: JsonDict, timeout: float = 20.0
) -> str:
    """How a program ends, in one word."""
    async with manager.session(SeedResult("p", "a")) as session:
        sample = ScorerInput(f"```python\n{program}\n```", "area", metadata)
        try:
            score = await code_sandbox_async(sample, await session.for_verify(), timeout)
        except TamperError:
            return "tamper"
        return str(score["verdict"]) if not score["correct"] else "PASSED"


@pytest.mark.parametrize("shape", SHAPES)
async def test_no_forged_program_scores(manager: SandboxManager, shape: str) -> None:
    assert len(FORGED) >= 40

    async def one(name: str) -> str:
        # Forged, then right, in sandboxes that serve them all.
        found = await verdict(manager, forged(name), SHAPES[shape])
        if len(name) % 5 == 0:
            assert await verdict(manager, PLAIN, SHAPES[shape]) == "PASSED", f"after {name}"
        return found

    found = dict(zip(FORGED, await asyncio.gather(*map(one, FORGED)), strict=True))
    assert [name for name, word in found.items() if word == "PASSED"] == []
    words = {"wrong", "crash", "tamper", "out_of_memory", "compile_error"}
    assert {name: word for name, word in found.items() if word not in words} == {}
    assert found["frames of its own"] == found["garbage in a frame"] == "tamper"
    assert (
        found["an int equal to everything"]
        == found["exit with 0"].replace("crash", "wrong")
        == "wrong"
    )
    right = await asyncio.gather(
        *(verdict(manager, text, SHAPES[shape]) for text in RIGHT.values())
    )
    assert dict(zip(RIGHT, right, strict=True)) == dict.fromkeys(RIGHT, "PASSED")


async def test_a_program_that_moves_before_its_judge_is_not_lost(
    manager: SandboxManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it does to a judge that has only just forked it, the judge, not the sandbox, is said to have failed."""
    real = code._compiled

    def with_slow_judge(name: str, source: str) -> CodeType:
        if name != "main":
            return real(name, source)
        assert "    pid = os.fork()\n" in source
        wait = "    pid = os.fork()\n    if pid: __import__('time').sleep(0.7)\n"
        return real(name, source.replace("    pid = os.fork()\n", wait))

    monkeypatch.setattr(code, "_compiled", with_slow_judge)
    monkeypatch.setattr(code, "_modules", code._modules.__wrapped__)
    names = [name for name in FORGED if "parent" in name or "everyone" in name or "others" in name]
    names += ["all files closed", "a daemon"]
    found = await asyncio.gather(
        *(verdict(manager, forged(name), SHAPES["mbpp"]) for name in names)
    )
    assert "PASSED" not in found
    assert set(found) <= {"wrong", "crash", "tamper"}, dict(zip(names, found, strict=True))
    assert await verdict(manager, PLAIN, SHAPES["mbpp"]) == "PASSED"


async def test_a_program_that_does_not_end_does_not_score(manager: SandboxManager) -> None:
    found = await asyncio.gather(
        *(verdict(manager, forged(name), SHAPES["mbpp"], 1.5) for name in SLOW)
    )
    assert set(found) <= {"timeout", "tamper"}


LEAVES = {
    "sitecustomize": """
import os, site, sys
text = "import builtins\\nbuiltins.LEFT = 1\\n"
for folder in [*sys.path, *site.getsitepackages(), site.getusersitepackages(), os.path.expanduser("~"), "/tmp", "."]:
    for name in ("sitecustomize.py", "usercustomize.py", "left.pth", "json.py", "main.py", "os.py"):
        try:
            os.makedirs(folder, exist_ok=True)
            open(os.path.join(folder, name), "w").write(text)
        except OSError: pass
""",
    "shared memory": """
import ctypes, os
libc = ctypes.CDLL(None)
for key in range(4242, 4246): libc.shmget(key, 4096, 0o1666)
libc.semget(4242, 1, 0o1666)
libc.msgget(4242, 0o1666)
for folder in ("/dev/shm", "/dev/mqueue", "/tmp", "/var/tmp", "/run", "/workspace", "."):
    try:
        open(folder + "/left-behind", "w").write("x")
        os.makedirs(folder + "/left/behind", exist_ok=True)
    except OSError: pass
""",
    "a process": """
import os
ready, running = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        os.execve("/bin/sleep", ["left-behind", "600"], {})
    os._exit(0)
os.wait()
os.close(running)
os.read(ready, 1)  # ends when the sleep has its new name, which closes the pipe
""",
}
LOOK = """
import builtins, ctypes, os
libc = ctypes.CDLL(None)
left = [libc.shmget(key, 1, 0) for key in range(4242, 4246)] + [libc.semget(4242, 1, 0), libc.msgget(4242, 0)]
left = [one for one in left if one != -1]
left += [f for f in ("/dev/shm", "/dev/mqueue", "/tmp", "/var/tmp", "/run", "/workspace", ".")
         for name in ("left-behind", "left") if os.path.exists(f"{f}/{name}")]
left += [1] if hasattr(builtins, "LEFT") else []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: left += [pid] if "left-behind" in open(f"/proc/{pid}/cmdline").read() else []
    except OSError: pass
who = os.getuid() == 0
def area(width, height):
    return f"left: {left}" if left else "root" if who else width * height
"""


async def test_a_program_leaves_nothing_for_the_next(manager: SandboxManager) -> None:
    for name, text in LEAVES.items():
        assert (
            await verdict(manager, text + LOOK, SHAPES["mbpp"]) != "PASSED"
            or name == "sitecustomize"
        ), name
        again = [
            verdict(manager, LOOK, SHAPES["mbpp"]),
            verdict(manager, LOOK, SHAPES["humaneval"]),
        ]
        assert await asyncio.gather(*again) == ["PASSED", "PASSED"], name
        assert await verdict(manager, forged("exit with 0"), SHAPES["humaneval"]) == "crash"


BENCHMARK = """
from nemo_evaluator import ScorerInput, benchmark, code_sandbox_async, scorer

META = {meta!r}

@benchmark(name="forged", dataset=lambda: [{{"q": f"program {{at}}", "a": "x", **META}} for at in range({size})],
           prompt="{{q}}", target_field="a")
@scorer
async def check(sample: ScorerInput) -> dict:
    return await code_sandbox_async(sample, sample.sandbox, 20)
"""


@pytest.mark.needs("bwrap")
def test_a_benchmark_of_forgeries_goes_on_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every answer is measured or failed with cause ``tamper``; one right one is among them."""
    monkeypatch.chdir(tmp_path)
    names = [name for name in FORGED if not name.startswith("marker in ")][::2]
    names += ["frames of its own", "kill all others", "marker in its own file"]
    programs = [PLAIN, *map(forged, names)]
    (tmp_path / "forged.py").write_text(BENCHMARK.format(meta=SHAPES["mbpp"], size=len(programs)))

    def model(seen: Seen) -> Say:
        return Say(
            f"```python\n{programs[int(seen.body['messages'][-1]['content'].split()[-1])]}\n```"
        )

    with ScriptedServer(model) as server:
        config = {
            "services": {
                "model": {
                    "type": "api",
                    "url": server.url,
                    "protocol": "chat_completions",
                    "model": "m",
                }
            },
            "benchmarks": [
                {
                    "name": str(tmp_path / "forged.py"),
                    "solver": {"type": "simple", "service": "model"},
                    "sandbox": {"type": "local", "concurrency": 4},
                }
            ],
            "output": {"dir": str(tmp_path / "out")},
        }
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
        ran = CliRunner().invoke(nel, ["eval", "run", str(tmp_path / "c.yaml")])
    assert "Traceback" not in ran.output
    rows = {
        row["problem_idx"]: row for row in iter_jsonl(tmp_path / "out" / "forged" / "results.jsonl")
    }
    assert len(rows) == len(programs)
    assert [at for at, row in rows.items() if row["reward"]] == [0]
    failed = {row["failure"]["cause"] for row in rows.values() if row["status"] == "failed"}
    assert failed == {"tamper"}
    assert {rows[at]["reward"] for at in rows if rows[at]["status"] == "failed"} == {None}
