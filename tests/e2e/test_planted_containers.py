"""Secrets planted in runs in containers and on a cluster, and beside a packaged benchmark: none gets into what remains."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker_image
import pytest
from docker_image import docker
from nel_support import SUMS, Nel, Serve, api, bench, nel, serve
from planted import Plants, echoes, files_with_secrets

__all__ = ["nel", "serve"]
_SIZE = 24
_PEM = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def plants() -> Plants:
    return Plants()


@pytest.fixture(scope="module")
def nel_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    if not docker_image.FITS:
        pytest.skip("the base image has Python 3.11, like these libraries")
    return docker_image.build_sources(tmp_path_factory.mktemp("image") / "context")


def _benchmark_folder(folder: Path, plants: Plants) -> None:
    """A folder with a benchmark, as people keep it: with keys beside the code."""
    folder.mkdir()
    (folder / "bench.py").write_text(SUMS.format(size=2))
    (folder / "rows.jsonl").write_text('{"q": "1 + 1?", "a": "2"}\n')
    files = {
        ".env": f"API_KEY={plants.word('.env')}\n",
        ".env.production": f"API_KEY={plants.word('.env of production')}\n",
        "config.json": json.dumps({"api_key": plants.random("settings of a tool")}),
        "settings.yaml": f"db_password: {plants.random('settings in YAML')}\n",
        "notes.txt": f"the token is sk-{plants.random('token in notes')}\n",
        "deploy.pem": _PEM.format(plants.random("private key")),
        "server.txt": _PEM.format(plants.random("private key of another name")),
        ".netrc": f"machine h login me password {plants.word('netrc')}\n",
        ".git/config": f"url = https://me:{plants.word('URL of git')}@h/x\n",
        ".aws/credentials": f"aws_secret_access_key = {plants.word('AWS')}\n",
        "data/.npmrc": f"//h/:_authToken={plants.word('npm')}\n",
        "data/token": plants.word("token of a folder"),
        ".ipynb_checkpoints/a-checkpoint.ipynb": json.dumps(
            {"cells": [{"source": [f"API_TOKEN = '{plants.random('notebook')}'"]}]}
        ),
        "__pycache__/old.pyc": f"API_KEY {plants.random('compiled file')}",
        ".bash_history": f"export API_KEY={plants.word('history')}\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _image_leaks(image: str, plants: Plants, folder: Path) -> list[str]:
    """The places whose secrets are in an image: its layers, history, labels and environment."""
    archive = folder / "image.tar"
    docker("save", "-o", str(archive), image)
    shown = docker("inspect", image) + docker("history", "--no-trunc", image)
    found = [f"inspect: {place}" for place in plants.leaks(shown.encode())]
    with tarfile.open(archive) as saved:
        for member in saved:
            file = saved.extractfile(member)
            if file is None:
                continue
            data = file.read()
            found += [f"{member.name}: {place}" for place in plants.leaks(data)]
            if tarfile.is_tarfile(io.BytesIO(data)):
                found += _layer_leaks(member.name, data, plants)
    return found


def _layer_leaks(layer: str, data: bytes, plants: Plants) -> list[str]:
    found = []
    with tarfile.open(fileobj=io.BytesIO(data)) as files:
        for member in files:
            file = files.extractfile(member) if member.isfile() else None
            content = member.name.encode() + (file.read() if file is not None else b"")
            found += [f"{layer}/{member.name}: {place}" for place in plants.leaks(content)]
    return found


@pytest.mark.needs("docker")
def test_a_packaged_image_holds_no_planted_secret(nel: Nel, plants: Plants, nel_image: str) -> None:
    _benchmark_folder(nel.folder / "own", plants)
    nel.env["DOCKER_BUILDKIT"] = "0"
    nel.env |= {"API_KEY": plants.word("variable"), "HF_TOKEN": plants.word("HF_TOKEN")}
    image = f"nel-test/planted:{nel.folder.name.lower()}"
    try:
        done = nel("package", "-m", "own", "-t", image, "--base-image", nel_image, timeout=500)
        listed = docker("run", "--rm", "--entrypoint", "find", image, "/app", "-type", "f")
        leaks = _image_leaks(image, plants, nel.folder)
    finally:
        subprocess.run(["docker", "rmi", "-f", image], capture_output=True, timeout=100)
    assert leaks == []
    assert plants.leaks((done.stdout + done.stderr).encode()) == []
    assert sorted(listed.split()) == ["/app/own/bench.py", "/app/own/rows.jsonl"]


def _config(url: str, cluster: dict[str, Any]) -> dict[str, Any]:
    headers = {
        "X-Own": "${PLAIN_NAME}",
        "Cookie": "session=${SESSION_COOKIE}",
        "Authorization": "Bearer ${OTHER_NAME}",
    }
    proxy = {
        "extra_headers": headers,
        "extra_body": {"user": "visible"},
        "interceptors": [{"name": "logging"}, {"name": "caching"}],
    }
    model = api(f"{url}", api_key="${MODEL_VALUE}", proxy=proxy, retry={"max_retries": 0})
    model["url"] = f"{url}/chat/completions?api_key=${{URL_VALUE}}"
    cluster = cluster | {
        "container_env": cluster.get("container_env", {})
        | {
            "GITHUB_PAT": "${PAT_VALUE}",
            "NEUTRAL": "${NEUTRAL_VALUE}",
        }
    }
    return {
        "services": {"model": model},
        "benchmarks": [bench("sums.py", max_concurrent=2)],
        "cluster": cluster,
        "output": {"dir": "o", "traffic": "bodies", "report": ["markdown", "html", "csv", "json"]},
    }


def _literals(plants: Plants) -> dict[str, str]:
    """Variables whose values are secrets that stand in the config."""
    licence = f"{plants.word('licence')}-1234-5678"
    # The secret is the whole value; its beginning alone, which a server might repeat, is none.
    plants.values["licence"] = licence
    return {
        "DB_PASS": plants.word("literal variable of the run"),
        "SETTING": plants.random("random variable of the run"),
        "STORE": f"Server=h;Pwd={plants.word('connection string')}",
        "NETRC": f"machine h login me password {plants.word('netrc in a variable')}",
        "LICENSE": licence,
    }


def _environment(nel: Nel, plants: Plants) -> None:
    (nel.folder / "sums.py").write_text(SUMS.format(size=_SIZE))
    nel.env |= {
        "XDG_DATA_HOME": str(nel.folder / "data"),
        "XDG_CACHE_HOME": str(nel.folder / "cache"),
        "HF_TOKEN": plants.word("HF_TOKEN"),
    }
    for name in (
        *("PLAIN_NAME", "SESSION_COOKIE", "OTHER_NAME", "MODEL_VALUE", "URL_VALUE", "PAT_VALUE"),
        "NEUTRAL_VALUE",
    ):
        nel.env[name] = plants.word(f"variable {name}")
    (nel.folder / ".env").write_text(f"OWN_PASS={plants.word('password in .env')}\n")


def _run(nel: Nel, serve: Serve, plants: Plants, cluster: dict[str, Any]) -> Iterator[str]:
    """Run to the end; yields what commands print meanwhile and afterwards."""
    _environment(nel, plants)
    parts = _config("http://SERVER", cluster)
    # A job never gets what stands in `.env` alone, so no server can repeat it.
    sent = [value for place, value in plants.values.items() if "in .env" not in place]
    server = serve(echoes(sent))
    config = nel.config(
        "c.json", **json.loads(json.dumps(parts).replace("http://SERVER", server.url))
    )
    done = nel("eval", "run", config, "-v", code=None, timeout=400)
    assert server.count >= _SIZE, done.stderr[-3000:]
    yield done.stdout + done.stderr
    for words in (
        ("eval", "status", "-o", "o", "--json"),
        ("eval", "logs", "-o", "o"),
        ("eval", "runs", "--json"),
        ("report", "o", "-f", "json"),
        ("eval", "run", config, "--dry-run"),
    ):
        done = nel(*words, code=None)
        yield done.stdout + done.stderr


_INPUTS = {"c.json", ".env", "sums.py"}


def _leaks(folder: Path, plants: Plants) -> list[str]:
    found = files_with_secrets(folder, plants)
    return [leak for leak in found if leak.partition(":")[0] not in _INPUTS]


@pytest.mark.needs("docker")
def test_a_run_in_a_container_leaves_no_planted_secret(
    nel: Nel, serve: Serve, plants: Plants, nel_image: str
) -> None:
    cluster = {"type": "docker"} | docker_image.cluster(nel_image)
    cluster["container_env"] |= _literals(plants)
    shown = []
    inspected: list[str] = []
    for text in _run(nel, serve, plants, cluster):
        shown.append(text)
        for container in docker("ps", "-aq").split():
            state = subprocess.run(
                ["docker", "inspect", container], capture_output=True, text=True, timeout=60
            )
            inspected.append(state.stdout)
    assert plants.leaks("".join(shown).encode()) == []
    assert plants.leaks("".join(inspected).encode()) == []
    assert _leaks(nel.folder, plants) == []


@pytest.mark.needs("slurm")
def test_a_job_leaves_no_planted_secret_in_its_script_and_logs(
    nel: Nel, serve: Serve, plants: Plants
) -> None:
    pool = {"partition": "batch", "sbatch_extra_flags": {"mem": "900M"}}
    cluster = {"type": "slurm", "walltime": "00:10:00", "node_pools": {"main": pool}}
    shown = dict(enumerate(_run(nel, serve, plants, cluster)))
    (folder,) = (path.parent for path in nel.folder.glob("o/nel_run.json"))
    job = (folder / ".nel_job_chain").read_text().split()[0]
    for words in (
        ["scontrol", "show", "job", "-d", job],
        ["sacct", "-j", job, "-P", "--format=ALL"],
        ["scontrol", "write", "batch_script", job, "-"],
    ):
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        shown[len(shown)] = done.stdout
    for name, text in shown.items():
        assert plants.leaks(text.encode()) == [], name
    assert _leaks(nel.folder, plants) == []
    assert list(folder.glob("*.sbatch")) and list(folder.rglob("logs/*.log"))


@pytest.mark.needs("slurm")
def test_a_job_is_refused_whose_config_holds_secrets(nel: Nel, plants: Plants) -> None:
    _environment(nel, plants)
    pool = {"partition": "batch", "sbatch_extra_flags": {"mem": "900M"}}
    cluster = {"type": "slurm", "walltime": "00:10:00", "node_pools": {"main": pool}}
    for name, value in _literals(plants).items():
        parts = _config("http://127.0.0.1:1", cluster | {"container_env": {name: value}})
        config = nel.config("c.json", **parts)
        done = nel("eval", "run", config, "--submit", code=1)
        assert "holds a secret itself" in done.stderr, name
        assert plants.leaks((done.stdout + done.stderr).encode()) == [], name
        assert _leaks(nel.folder, plants) == [], name
