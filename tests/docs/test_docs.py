"""Every block of README.md and docs/ is run or checked.

- ``bash``: run, in one folder per page, against a scripted server in the place of the public endpoint;
- ``yaml``: checked as a config (a part of one is laid over a small base), as a policy, or as a plain file;
- ``python``: run.

A block whose first line is a comment with a file name is also saved under that name, for the blocks after it. A block after
``<!-- needs: part -->`` is skipped where the part is absent. ``console`` and ``text`` blocks are not run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from nemo_evaluator.config import load_mapping
from nemo_evaluator.config._document import deep_merge
from nemo_evaluator.config.gate_policy import GatePolicy, parse_gate_policy
from nemo_evaluator.config.schema import reference_markdown
from nemo_evaluator.testing import ScriptedServer

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PUBLIC = "https://integrate.api.nvidia.com/v1"
BASE: dict[str, Any] = {
    "services": {
        name: {"type": "api", "url": "http://127.0.0.1:9/v1", "protocol": "chat_completions"}
        for name in ("model", "judge", "nemotron")
    }
    | {"tools": {"type": "gym", "url": "http://127.0.0.1:9"}},
    "benchmarks": [{"name": "quickstart", "solver": {"type": "simple", "service": "model"}}],
}
_BLOCK = re.compile(
    r"^(?:<!-- needs: (?P<needs>[\w, ]+) -->\n+)?```(?P<kind>\w+)\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"# (?P<name>[\w./-]+\.(?:py|ya?ml|jsonl?))\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    kind: str
    text: str
    line: int
    needs: tuple[str, ...]

    @property
    def file(self) -> str | None:
        match = _FILE.match(self.text)
        return match["name"] if match else None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            match["kind"],
            match["text"],
            text[: match.start("text")].count("\n") + 1,
            tuple(part.strip() for part in (match["needs"] or "").split(",") if part.strip()),
        )
        for match in _BLOCK.finditer(text)
    ]


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.kind in ("bash", "yaml", "python")]


WITH_BLOCKS = [page for page in PAGES if page.is_file() and runnable(page)]


def answer(seen: Any) -> str:
    """Right for some problems and wrong for others, the same every time: runs that can be compared."""
    return str(len(seen.prompt) % 7)


@pytest.fixture(scope="session")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(answer) as running:
        yield running


@pytest.fixture(scope="session")
def demo(server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The outputs that the demo leaves: two runs of the quickstart benchmark."""
    folder = tmp_path_factory.mktemp("demo")
    for name in ("quickstart", "quickstart_hot"):
        command = [
            "eval",
            "run",
            "--bench",
            "quickstart",
            "--model-url",
            server.url,
            "--model-id",
            "tiny",
        ]
        done = nel(folder, *command, "-o", f"eval_results/{name}")
        assert done.returncode == 0, done.stderr
    return folder


def nel(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("nel")), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def workspace(demo: Path, server: ScriptedServer, tmp_path: Path) -> Path:
    """A folder like a checkout after `make demo`, whose examples speak to the scripted server."""
    shutil.copytree(demo, tmp_path, dirs_exist_ok=True)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for file in (tmp_path / "examples").rglob("*.yaml"):
        text = file.read_text().replace(PUBLIC, server.url)
        # The small model is real; a few of its sixty questions are enough here.
        file.write_text(
            text.replace("- name: quickstart\n", "- name: quickstart\n    max_problems: 4\n")
        )
    return tmp_path


@pytest.fixture
def environment(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    key = "nvapi-documentation"
    mirror = os.environ.get("NEL_TEST_MIRROR") or str(ROOT.parent / "shared" / "data")
    values = {"PATH": path, "NEMO_MODEL_URL": server.url, "NEMO_MODEL_ID": "tiny"}
    for name, value in {**values, "NEMO_API_KEY": key, "NVIDIA_API_KEY": key}.items():
        monkeypatch.setenv(name, value)
    if Path(mirror, "index.yaml").is_file():
        monkeypatch.setenv("NEL_DATA_MIRROR", mirror)


@pytest.fixture
def parts(request: pytest.FixtureRequest) -> ModuleType:
    """The conftest of all tests, which knows the parts of this machine."""
    return next(
        plugin
        for plugin in request.config.pluginmanager.get_plugins()
        if hasattr(plugin, "has_part")
    )


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(
    page: Path, workspace: Path, server: ScriptedServer, environment: None, parts: ModuleType
) -> None:
    for block in runnable(page):
        place = f"{page.relative_to(ROOT)}:{block.line}"
        absent = [part for part in block.needs if not parts.has_part(part)]
        if absent:
            required = set(absent) - parts.NEVER_REQUIRED
            assert not (required and parts._parts_required()), (
                f"{place}: absent parts {sorted(required)}"
            )
            continue
        text = block.text.replace(PUBLIC, server.url)
        if block.file:
            target = workspace / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        CHECKS[block.kind](text, workspace, place)


def check_bash(text: str, folder: Path, place: str) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, (
        f"{place}: exit {done.returncode}\n{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    )


def check_python(text: str, folder: Path, place: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, (
        f"{place}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    )


def check_yaml(text: str, folder: Path, place: str) -> None:
    data = yaml.safe_load(text)
    assert isinstance(data, dict | list), place
    if not isinstance(data, dict):
        return
    if set(data) <= set(GatePolicy.model_fields) and "services" not in data and "version" in data:
        parse_gate_policy(data)
        return
    if set(data) <= {"sandbox", "solver", "scoring"}:
        data = {"benchmarks": [{**BASE["benchmarks"][0], **data}]}
    known = {"services", "sandboxes", "benchmarks", "cluster", "output", "datasets", "budget"}
    if set(data) & known and "defaults" not in data:
        # A page may speak of variables of the reader's own.
        named = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "value")
        whole = data if {"services", "benchmarks"} <= set(data) else deep_merge(BASE, data)
        load_mapping(whole, environment={**named, **os.environ})


CHECKS = {"bash": check_bash, "yaml": check_yaml, "python": check_python}


def test_the_config_reference_is_what_the_schema_says() -> None:
    written = (ROOT / "docs" / "config-reference.md").read_text()
    assert written == reference_markdown() + "\n", (
        "run: nel config schema --markdown > docs/config-reference.md"
    )


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.is_file()], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target and not target.startswith("#"):
            assert (page.parent / target.partition("#")[0]).exists(), f"{page.name}: {target}"


def test_every_page_is_in_the_table_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    pages = [
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "tutorials").glob("*.md"),
        ROOT / "docs/benchmarks/README.md",
    ]
    missing = [
        str(page.relative_to(ROOT)) for page in pages if f"({page.relative_to(ROOT)})" not in readme
    ]
    assert not missing, "add them to the table at the end of README.md"


def test_the_variables_of_the_guide_are_read_somewhere() -> None:
    table = (
        (ROOT / "docs" / "configuration.md")
        .read_text()
        .split("## Variables that `nel` reads")[1]
        .split("## ")[0]
    )
    source = "".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    names = re.findall(r"`([A-Z][A-Z_]+)`", table)
    assert len(names) > 15
    assert [name for name in names if name not in source] == []
