"""What end-to-end tests share: the real command, a real server in a process of its own, config blocks."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pytest

from nemo_evaluator.cli._errors import tell
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.servers.process import port_is_busy
from nemo_evaluator.testing import ScriptedServer

Serve = Callable[..., ScriptedServer]
Sums = Callable[[int], str]
NEL = str(Path(sys.executable).with_name("nel"))


class Nel:
    """Runs ``nel`` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = dict(os.environ)

    def __call__(
        self, *words: str, code: int | None = 0, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [NEL, *words],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert "Traceback" not in done.stderr, done.stderr
        if code is not None:
            assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [NEL, *words],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def config(self, name: str, **parts: Any) -> str:
        """Write a config (JSON is YAML) and return its name."""
        (self.folder / name).write_text(json.dumps(parts))
        return name


def api(url: str, **more: Any) -> dict[str, Any]:
    """A service block."""
    return {
        "type": "api",
        "url": f"{url}/chat/completions",
        "protocol": "chat_completions",
        "model": "m",
        **more,
    }


def bench(name: str, **more: Any) -> dict[str, Any]:
    """A benchmark block."""
    return {"name": name, "solver": {"type": "simple", "service": "model"}, **more}


SUMS = """
from nemo_evaluator import ScorerInput, benchmark, exact_match, scorer


def rows():
    return [{{"question": f"How much is {{n}} + {{n}}?", "target": str(2 * n)}} for n in range({size})]


@benchmark(name="sums", dataset=rows, prompt="{{question}}", target_field="target")
@scorer
def score(sample: ScorerInput) -> dict:
    return exact_match(sample)
"""


def rows(folder: Path, drop: set[str] | frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """The rows of results.jsonl, without some fields."""
    lines = (folder / "results.jsonl").read_bytes().splitlines()
    return [
        {key: value for key, value in json.loads(line).items() if key not in drop} for line in lines
    ]


def command_lines_with(text: str) -> list[bytes]:
    """The command lines of all other processes of this machine that hold a text."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                line = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in line:
                found.append(line)
    return found


def marked(marker: str) -> list[int]:
    """The living processes whose environment or arguments hold a marker."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
            dead = (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if marker.encode() in text and not dead and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def free_ports(count: int) -> int:
    """The first of so many ports in a row that are free, outside of the range that systems give out by themselves."""
    while True:
        port = random.randrange(20_000, 32_000)
        if not any(port_is_busy(port + step) for step in range(count)):
            return port


def containers_of(service: str) -> str:
    """The containers of a service, and of its replicas."""
    listed = [
        "docker",
        "ps",
        "--all",
        "--quiet",
        "--filter",
        f"label=nel.sandbox=service {service}",
    ]
    return subprocess.run(listed, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start scripted servers, each in a thread of its own; all are gone after the test."""
    with ExitStack() as stack:
        yield lambda *script, **options: stack.enter_context(ScriptedServer(*script, **options))


@pytest.fixture
def nel(tmp_path: Path) -> Nel:
    return Nel(tmp_path)


@pytest.fixture
def sums(tmp_path: Path) -> Sums:
    """Write a benchmark file with so many problems; returns its name."""

    def write(size: int) -> str:
        (tmp_path / "sums.py").write_text(SUMS.format(size=size))
        return "sums.py"

    return write


class Told(click.Command):
    """A command whose errors are told as ``nel`` tells them."""

    def __init__(self, command: click.Command) -> None:
        super().__init__(command.name)
        self._command = command

    def main(self, *args: Any, **more: Any) -> Any:
        try:
            return self._command.main(*args, **more)
        except NelError as error:
            sys.exit(tell(error))
