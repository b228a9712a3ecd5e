"""What ``nel package`` copies: the benchmark, and no secret, no file from elsewhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.executors.benchmark_image import BenchmarkImage
from nemo_evaluator.executors.image_content import folder_content

PLANTED = "planted-secret-of-a-file"
SECRET_FILES = [
    ".env",
    ".env.production",
    "prod.env",
    "server.pem",
    "tls/private.key",
    "id_rsa",
    "keys/id_ed25519",
    "credentials",
    "gcp-credentials.json",
    "service-account.json",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    "kubeconfig",
    ".git/config",
    ".aws/config",
    ".ssh/known_hosts",
    ".docker/config.json",
    "secrets.yaml",
    "terraform.tfstate",
    ".bash_history",
    "Credentials.JSON",
]
CONTENT = {
    "notes.txt": "-----BEGIN OPENSSH PRIVATE KEY-----\nplanted-secret-of-a-file\n-----END OPENSSH PRIVATE KEY-----\n",
    "settings.toml": 'x = 1\npath = "hf_plantedsecretofafile01"\n',
    "lib/client.py": 'API_KEY = "9f86d081884c7d65"\n',
    "config.json": '{"dbPassword": "Zx81kQwe77LpNm20"}',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bench"
    folder.mkdir()
    (folder / "bench.py").write_text("import tokens\n")
    (folder / "tokens.py").write_text("key = 'answer'\n")
    (folder / "data").mkdir()
    (folder / "data" / "rows.jsonl").write_text(
        '{"key": "9f86d081884c7d659a2feaa0c55ad015", "token": "the"}\n'
    )
    return folder


def _write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _copied(folder: Path, target: Path, *include: str) -> set[str]:
    image = BenchmarkImage(folder, "python", include=include)
    target.mkdir()
    image.write_context(target)
    top = target / folder.name
    return {
        str(path.relative_to(top))
        for path in top.rglob("*")
        if not path.is_dir() or path.is_symlink()
    }


@pytest.mark.parametrize("name", SECRET_FILES)
def test_files_with_names_of_secrets_stay_out(folder: Path, tmp_path: Path, name: str) -> None:
    _write(folder, name, PLANTED)
    assert _copied(folder, tmp_path / "context") == {"bench.py", "tokens.py", "data/rows.jsonl"}
    shown = folder_content(folder).listing()
    assert "left out:" in shown and name.split("/")[0] in shown.partition("left out:")[2]


@pytest.mark.parametrize("name", CONTENT)
def test_files_that_hold_secrets_stay_out(folder: Path, tmp_path: Path, name: str) -> None:
    _write(folder, name, CONTENT[name])
    assert name not in _copied(folder, tmp_path / "context")
    assert name in folder_content(folder).listing().partition("left out:")[2]
    assert name in _copied(folder, tmp_path / "included", name)


@pytest.mark.parametrize("kind", ["absolute", "parent", "chain", "folder", "dangling", "nested"])
def test_links_that_leave_are_refused(folder: Path, tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file.txt").write_text(PLANTED)
    link = folder / "link.txt"
    if kind == "absolute":
        link.symlink_to(outside / "file.txt")
    elif kind == "parent":
        link.symlink_to("../outside/file.txt")
    elif kind == "chain":
        (tmp_path / "hop").symlink_to(outside / "file.txt")
        link.symlink_to("../hop")
    elif kind == "folder":
        link.symlink_to(outside)
    elif kind == "dangling":
        link.symlink_to("../not-there")
    else:
        link = folder / "data" / "link.txt"
        link.symlink_to("../../outside/file.txt")
    with pytest.raises(UsageError, match=r"link\.txt"):
        _copied(folder, tmp_path / "context")
    assert PLANTED not in "".join(
        path.read_text() for path in (tmp_path / "context").rglob("*") if path.is_file()
    )


def test_links_inside_lead_to_the_copies(folder: Path, tmp_path: Path) -> None:
    (folder / "absolute").symlink_to(folder / "data" / "rows.jsonl")
    (folder / "data" / "up").symlink_to("../bench.py")
    (folder / "whole").symlink_to("data")
    (folder / "circle").symlink_to("circle")
    _write(folder, ".env", PLANTED)
    (folder / "plain.txt").symlink_to(".env")
    os.link(folder / "bench.py", folder / "hard.py")
    names = _copied(folder, tmp_path / "context")
    assert names == {
        "bench.py",
        "tokens.py",
        "data/rows.jsonl",
        "absolute",
        "data/up",
        "whole",
        "hard.py",
    }
    copy = tmp_path / "context" / "bench"
    for name in ("absolute", "data/up", "whole"):
        assert (copy / name).resolve().is_relative_to(copy.resolve())
        assert not (copy / name).readlink().is_absolute()


def test_modes_stay_and_what_is_no_file_is_left_out(folder: Path, tmp_path: Path) -> None:
    (folder / "bench.py").chmod(0o600)
    (folder / "run.sh").write_text("true\n")
    (folder / "run.sh").chmod(0o755)
    os.mkfifo(folder / "pipe")
    names = _copied(folder, tmp_path / "context")
    assert "pipe" not in names
    copy = tmp_path / "context" / "bench"
    assert stat.S_IMODE((copy / "bench.py").stat().st_mode) == 0o600
    assert stat.S_IMODE((copy / "run.sh").stat().st_mode) == 0o755
    assert "COPY --chown=1000:1000" in BenchmarkImage(folder, "python").dockerfile()


def test_what_was_named_is_refused_when_it_is_a_secret(folder: Path, tmp_path: Path) -> None:
    module = folder / "own.py"
    module.write_text('TOKEN = "hf_plantedsecretofafile01"\n')
    with pytest.raises(UsageError, match="line 1 holds"):
        BenchmarkImage(module, "python").content()
    needs = tmp_path / "needs.txt"
    needs.write_text("numpy\n--index-url https://me:planted@host/simple\n")
    with pytest.raises(UsageError, match=r"needs\.txt:2"):
        BenchmarkImage(folder / "bench.py", "python", requirements=needs).content()


def test_the_ignore_file_names_what_stays_out(folder: Path) -> None:
    _write(folder, ".env", PLANTED)
    _write(folder, ".git/config", PLANTED)
    assert BenchmarkImage(folder, "python").ignored() == "bench/.env\nbench/.git\n"
