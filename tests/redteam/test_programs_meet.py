"""After a program that fills its sandbox with processes, the next right program is judged as if nothing had been."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from nemo_evaluator.config import DockerSandbox, LocalSandbox
from nemo_evaluator.core.errors import TamperError
from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.sandbox.manager import SandboxManager
from nemo_evaluator.scoring.code import Measure, judge_program

RIGHT = "import os\ndef f(x):\n    if os.fork() == 0:\n        os._exit(0)\n    os.wait()\n    return x * x\n"
TESTS = Measure("assert f(3) == 9", "f")
_FORKS = "import os, time\ndef fill():\n    while True:\n        try:\n"
FILLING = {
    "processes": f"{_FORKS}            if os.fork() == 0: time.sleep(600)\n        except OSError: return\n"
    "fill()\ndef f(x): return 7\n",
    "processes that breed": f"{_FORKS}            os.fork()\n        except OSError: time.sleep(0.001)\n"
    "import threading\nthreading.Thread(target=fill, daemon=True).start()\ntime.sleep(0.3)\ndef f(x): return 7\n",
    "sessions of their own": f"{_FORKS}            if os.fork() == 0:\n                os.setsid()\n"
    "                time.sleep(600)\n        except OSError: return\nfill()\ndef f(x): return 7\n",
    "threads": "import threading, time\ndef f(x):\n    while True:\n        try:\n"
    "            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    "        except RuntimeError: return 7\n",
}


@pytest.fixture(
    params=[
        pytest.param("local", marks=pytest.mark.needs("bwrap")),
        pytest.param("docker", marks=pytest.mark.needs("docker")),
    ]
)
async def manager(request: pytest.FixtureRequest) -> AsyncIterator[SandboxManager]:
    """One sandbox, so that programs follow one another in it."""
    manager: SandboxManager
    if request.param == "local":
        manager = SandboxManager(LocalSandbox(type="local", memory="512m", concurrency=1), "test")
    else:
        image = "nel-test/python:bookworm"
        config = DockerSandbox(
            type="docker", memory="512m", image=image, network="none", concurrency=1
        )
        manager = SandboxManager(config, "test")
    yield manager
    await manager.close()


async def _verdict(manager: SandboxManager, program: str) -> str:
    async with manager.session(SeedResult("p", "a")) as session:
        try:
            score = await judge_program(program, TESTS, await session.for_verify(), 10.0)
        except TamperError as error:
            return f"tamper: {error}"
        return str(score["verdict"])


@pytest.mark.parametrize("name", FILLING)
async def test_the_next_program_has_a_sandbox_of_its_own(
    manager: SandboxManager, name: str
) -> None:
    for _ in range(3):
        assert await _verdict(manager, FILLING[name]) != "passed"
        assert await _verdict(manager, RIGHT) == "passed"
