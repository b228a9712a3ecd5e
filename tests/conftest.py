"""What every test may use: the ``needs`` marker for real parts, the dataset mirror, and a home directory of its own."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["line_coverage"]
# How long an example takes says how busy the machine is.
settings.register_profile("nel", deadline=None)
settings.load_profile("nel")

ROOT = Path(__file__).resolve().parents[1]
MODELS_DIR = Path(
    os.environ.get("NEL_MODELS_DIR")
    or Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "nel" / "models"
)
PARTS_DIR = Path(os.environ.get("NEL_PARTS_DIR") or ROOT / ".parts")
# Settings of the person who runs the tests that would change what the tests see.
FOREIGN_SETTINGS = (
    "COLUMNS",  # pytest-xdist sets it in its workers
    "NEL_DATA_MIRROR",
    "NEL_SHARD_IDX",
    "NEL_TOTAL_SHARDS",
    "NEL_INNER_EXECUTION",
    "NEL_OUTPUT_DIR",
    "NEMO_API_KEY",
    "OPENAI_API_KEY",
    "MODEL_BASE_URL",
    "SLURM_ARRAY_TASK_ID",
    *(
        name
        for base in ("http", "https", "all", "no")
        for name in (f"{base}_proxy", f"{base}_PROXY".upper())
    ),
)
_homes = itertools.count()


def _mirror() -> Path:
    return Path(os.environ.get("NEL_TEST_MIRROR") or ROOT.parent / "shared" / "data")


def _ran(*command: str) -> bool:
    """True when the command is there and ends with 0 soon."""
    if shutil.which(command[0]) is None:
        return False
    try:
        return subprocess.run(command, capture_output=True, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _library(name: str) -> Callable[[], bool]:
    return lambda: importlib.util.find_spec(name) is not None


def _command(*names: str) -> Callable[[], bool]:
    return lambda: all(shutil.which(name) for name in names)


def _llama_server() -> bool:
    return shutil.which(os.environ.get("NEL_LLAMA_SERVER") or "llama-server") is not None


def _chromium() -> bool:
    browser = any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return browser and importlib.util.find_spec("playwright") is not None


def _harbor_python() -> str:
    """The Python that has the Harbor package: one that is named, else that of ``scripts/parts.sh``."""
    return os.environ.get("NEL_HARBOR_PYTHON") or str(PARTS_DIR / "harbor" / "bin" / "python")


PARTS: dict[str, Callable[[], bool]] = {
    "apptainer": lambda: (
        _ran("apptainer", "--version") and (PARTS_DIR / "images" / "python-bookworm.sif").is_file()
    ),
    "biome": lambda: any(PARTS_DIR.glob("node/biome-*/node_modules/@biomejs/cli-*/biome")),
    "bwrap": lambda: _ran("bwrap", "--ro-bind", "/", "/", "true"),
    "chromium": _chromium,
    "docker": lambda: _ran("docker", "version"),
    "fastapi": _library("fastapi"),
    "git": _command("git"),
    "haproxy": _command("haproxy"),
    "harbor": lambda: _ran(_harbor_python(), "-c", "import harbor"),
    "inspect": _library("inspect_ai"),
    "jupyter": lambda: _library("ipykernel")() and _library("nbclient")(),
    "llama_server": _llama_server,
    "lm_eval": _library("lm_eval"),
    "mcp": _library("mcp"),
    "mirror": lambda: (_mirror() / "index.yaml").is_file(),
    "mlflow": _library("mlflow"),
    "model": lambda: any(MODELS_DIR.glob("**/SmolLM2-135M-Instruct*.gguf")),
    "moto": _library("moto"),
    "podman": lambda: _ran("podman", "version"),
    "ray": _library("ray"),
    "root": lambda: os.geteuid() == 0,
    "runsc": _command("runsc"),
    "shellcheck": _command("shellcheck"),
    "slurm": lambda: _ran("sinfo", "--noheader"),
    "sshd": _command("sshd", "ssh"),
    "transformers": _library("transformers"),
    "nemo_gym": lambda: _ran("bash", str(ROOT / "scripts" / "agents.sh"), "check", "nemo-gym"),
    "mini_swe_agent": lambda: _ran(
        "bash", str(ROOT / "scripts" / "agents.sh"), "check", "mini-swe-agent"
    ),
    "inspect_evals": lambda: _ran(
        "bash", str(ROOT / "scripts" / "agents.sh"), "check", "inspect-evals"
    ),
    "nat": lambda: _ran("bash", str(ROOT / "scripts" / "agents.sh"), "check", "nat"),
    "openclaw": lambda: _ran("bash", str(ROOT / "scripts" / "agents.sh"), "check", "openclaw"),
    "vllm": lambda: _ran("bash", str(ROOT / "scripts" / "vllm.sh"), "check"),
    "tinyproxy": _command("tinyproxy"),
    "wandb": _library("wandb"),
    "xllamacpp": _library("xllamacpp"),
    "netns": lambda: _ran("ip", "-V") and _ran("unshare", "-n", "true"),
    "openssl": _command("openssl"),
}
# The mirror is not ours to install, so its absence is never a failure.
NEVER_REQUIRED = frozenset({"mirror"})


@functools.cache
def has_part(part: str) -> bool:
    """Whether a real part can be used here; asked of the machine once."""
    return PARTS[part]()


def _parts_required() -> bool:
    return (
        os.environ.get("CI", "").lower() in ("1", "true")
        or os.environ.get("NEL_REQUIRE_PARTS") == "1"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Find what ``scripts/parts.sh`` installed beside the checkout."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell gives that to what it runs in the background, and every command that a test starts would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["NEL_MODELS_DIR"] = str(MODELS_DIR)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        # The list of runs is not that of whoever runs the tests: some clean it up.
        os.environ["XDG_DATA_HOME"] = data = tempfile.mkdtemp(prefix="nel-data-")
        config.add_cleanup(lambda: shutil.rmtree(data, ignore_errors=True))
    os.environ["NEL_HARBOR_PYTHON"] = _harbor_python()
    tools = PARTS_DIR / "bin"
    if tools.is_dir():
        os.environ["PATH"] = f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"
    engine = Path(f"/tmp/nel-docker-{os.getuid()}/docker.sock")
    if (
        "DOCKER_HOST" not in os.environ
        and engine.is_socket()
        and not Path("/var/run/docker.sock").is_socket()
    ):
        os.environ["DOCKER_HOST"] = f"unix://{engine}"
    cluster = Path(f"/tmp/nel-slurm-{os.getuid()}/slurm.conf")
    if "SLURM_CONF" not in os.environ and cluster.is_file():
        os.environ["SLURM_CONF"] = str(cluster)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Queue up for the one cluster there is; leave out what is large, unless it is asked for."""
    for item in items:
        needs = {part for mark in item.iter_markers("needs") for part in mark.args}
        if "slurm" in needs:
            item.add_marker("queued")
        if "chromium" in needs:
            # It drops its requests whenever another test makes a network.
            item.add_marker("serial")
    if os.environ.get("NEL_TEST_ALL") == "1":
        return
    large = [item for item in items if item.get_closest_marker("large")]
    if large:
        config.hook.pytest_deselected(items=large)
        items[:] = [item for item in items if item not in large]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose part is absent; where parts are required, fail it."""
    for part in (part for mark in item.iter_markers("needs") for part in mark.args):
        if part not in PARTS:
            pytest.fail(f"needs({part!r}): unknown part; known: {', '.join(PARTS)}", pytrace=False)
        if has_part(part):
            continue
        reason = f"the part {part!r} is absent; `make parts` installs it, or says who can"
        if part == "root":
            reason = "only root can do this"
        if part in NEVER_REQUIRED:
            pytest.skip(f"the {part} folder is absent; NEL_TEST_MIRROR names it")
        if _parts_required():
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Data, settings and caches of ``nel`` go to a folder of the test's own, never to the user's."""
    home = tmp_path_factory.getbasetemp() / "home" / str(next(_homes))
    for kind in ("DATA", "CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(home / kind.lower()))
    for name in FOREIGN_SETTINGS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def mirror_dir() -> Path:
    """The dataset mirror with real rows: ``NEL_TEST_MIRROR``, or ``../shared/data`` beside the checkout."""
    if not has_part("mirror"):
        pytest.skip("the mirror folder is absent; NEL_TEST_MIRROR names it")
    return _mirror()


@pytest.fixture
def data_mirror(mirror_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The mirror, switched on: ``NEL_DATA_MIRROR`` points to it."""
    monkeypatch.setenv("NEL_DATA_MIRROR", str(mirror_dir))
    return mirror_dir


@pytest.fixture(scope="session")
def parts_dir() -> Path:
    """Where the large parts are."""
    return PARTS_DIR


@pytest.fixture(scope="session")
def nemo_gym_python() -> Path:
    """The Python that ``scripts/agents.sh`` gave NeMo Gym; use with ``needs("nemo_gym")``."""
    return PARTS_DIR / "nemo-gym" / "bin" / "python"


@pytest.fixture(scope="session")
def nat_bin() -> Path:
    """Where ``scripts/agents.sh`` put the command ``nat``; use with ``needs("nat")``."""
    return PARTS_DIR / "nat" / "bin"


@pytest.fixture(scope="session")
def vllm_dir() -> Path:
    """Where ``scripts/vllm.sh`` put vLLM; use with ``needs("vllm")``."""
    return PARTS_DIR / "vllm"


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The packaged SmolLM2 file; use with ``needs("model")``."""
    return next(MODELS_DIR.glob("**/SmolLM2-135M-Instruct*.gguf"))
