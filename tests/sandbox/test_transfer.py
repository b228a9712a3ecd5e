"""Archives that a sandbox made up: nothing of them is written where it does not belong."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO

import pytest

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox import _transfer
from nemo_evaluator.sandbox._backend import Exit


def _entry(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", data: bytes = b"evil"
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = len(data) if kind == tarfile.REGTYPE else 0
    return info, data


def _archive(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return buffer.getvalue()


def _sender(archive: bytes, *, digest: str | None = None, code: int = 0):  # type: ignore[no-untyped-def]
    async def pipe(
        argv: list[str],
        stdin: IO[bytes] | None,
        sink: Callable[[bytes], object] | None,
        timeout: float,
    ) -> tuple[Exit, str]:
        assert sink is not None
        sink(archive)
        return Exit(code), f"{digest or hashlib.sha256(archive).hexdigest()}  -\n"

    return pipe


TOP = _entry("./", tarfile.DIRTYPE)
EVIL = {
    "parent": [TOP, _entry("../evil")],
    "deep parent": [TOP, _entry("a/../../evil")],
    "through a link": [TOP, _entry("./d", tarfile.SYMTYPE, "../"), _entry("./d/evil")],
    "through a far link": [TOP, _entry("./d", tarfile.SYMTYPE, "{outside}"), _entry("./d/evil")],
    "hard link": [TOP, _entry("./h", tarfile.LNKTYPE, "../outside/victim"), _entry("./h")],
    "two tops": [_entry("a"), _entry("b")],
    "a link behind a link": [
        TOP,
        _entry("./a", tarfile.DIRTYPE),
        _entry("./a/d", tarfile.SYMTYPE, ".."),
        _entry("./a/d/z", tarfile.SYMTYPE, ".."),
    ],
}


@pytest.mark.parametrize("name", EVIL)
async def test_evil_archives(name: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("safe")
    entries = []
    for info, data in EVIL[name]:
        info.linkname = info.linkname.replace("{outside}", str(outside))
        entries.append((info, data))
    target = tmp_path / "x" / "target"
    try:
        await _transfer.download(_sender(_archive(*entries)), "/w", target)
    except SandboxError as error:
        assert "may not be unpacked" in error.message
    assert (outside / "victim").read_text() == "safe"
    assert sorted(path.name for path in outside.iterdir()) == ["victim"]
    strays = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and "evil" in path.name and target not in path.parents
    ]
    assert strays == []
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


def _pax(**records: str) -> tuple[tarfile.TarInfo, bytes]:
    info, data = _entry("./f", data=b"1\n0\n1\n".ljust(512, b"\0") + b"x" * 512)
    info.pax_headers = {name.replace("_", "."): value for name, value in records.items()}
    return info, data


def _raw(name: str, kind: bytes, size: int) -> bytes:
    """A header that claims a size."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


HUGE = {
    "old sparse": _archive(TOP)[:512] + _raw("./f", tarfile.GNUTYPE_SPARSE, 512) + b"x" * 512,
    "sparse 1.0": _archive(
        TOP,
        _pax(
            GNU_sparse_major="1",
            GNU_sparse_minor="0",
            GNU_sparse_name="./f",
            GNU_sparse_realsize=str(2**50),
        ),
    ),
    "sparse 0.1": _archive(TOP, _pax(GNU_sparse_map=f"0,1,{2**50},1", GNU_sparse_size=str(2**50))),
    "sparse 0.0": _archive(TOP, _pax(GNU_sparse_size=str(2**50), GNU_sparse_numblocks="1")),
    "pax bomb": _archive(TOP)[:512] + _raw("./f", tarfile.XHDTYPE, 2**33),
    "long name": _archive(TOP)[:512] + _raw("./f", tarfile.GNUTYPE_LONGNAME, 2**33),
    "negative size": _archive(TOP)[:512] + _raw("./f", tarfile.REGTYPE, -512),
    "negative size in pax": _archive(TOP, _pax(size="-1024")),
    "size beyond measure": _archive(TOP, _pax(size="9" * 300)),
    "a NUL in a name": _archive(TOP, _pax(path="./f\0g")),
    "headers of headers": _archive(TOP)[:512] + _raw("./f", tarfile.XHDTYPE, 0) * 3000,
    "one file named by many": _archive(
        TOP,
        _entry("./f", data=b"x" * 600_000),
        *(_entry(f"./{n}", tarfile.LNKTYPE, "./f") for n in range(5)),
    ),
    "many files": _archive(TOP, *(_entry(f"./{n}", data=b"") for n in range(60))),
}


@pytest.mark.parametrize("name", HUGE)
async def test_archives_that_would_become_huge_are_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_transfer, "MAX_DOWNLOAD", 2_000_000)
    monkeypatch.setattr(_transfer, "_MAX_MEMBERS", 50)
    with pytest.raises(SandboxError, match="may not be unpacked"):
        await _transfer.download(_sender(HUGE[name]), "/w", tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


async def test_an_absolute_name_is_refused(tmp_path: Path) -> None:
    stray = tmp_path / "absolute"
    archive = _archive(TOP, _entry(str(stray)))
    with pytest.raises(SandboxError, match="leads outside"):
        await _transfer.download(_sender(archive), "/w", tmp_path / "t")
    assert not stray.exists()


@pytest.mark.parametrize(
    ("folder", "target", "inside"),
    [
        ("", "f", True),
        ("a/b", "../../f", True),
        ("a", "../../f", False),
        ("", "/etc/passwd", False),
        # Through a link to the folder itself, the second step up would leave it.
        ("", "l/x/../..", False),
    ],
)
def test_where_links_may_point(folder: str, target: str, inside: bool) -> None:
    assert _transfer._stays_inside(PurePosixPath(folder), target) is inside


async def test_a_damaged_or_cut_stream_is_an_error(tmp_path: Path) -> None:
    whole = _archive(_entry("f", data=b"x" * 5000))
    with pytest.raises(SandboxError, match="damaged"):
        await _transfer.download(_sender(whole, digest="0" * 64), "/f", tmp_path / "f")
    with pytest.raises(SandboxError, match="may not be unpacked"):
        await _transfer.download(_sender(whole[:2000]), "/f", tmp_path / "f")
    with pytest.raises(SandboxError, match="failed"):
        await _transfer.download(_sender(whole, code=1), "/f", tmp_path / "f")
    assert not (tmp_path / "f").exists()


async def test_too_much_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transfer, "MAX_DOWNLOAD", 1000)
    with pytest.raises(SandboxError, match="larger than 1000 bytes"):
        await _transfer.download(_sender(_archive(_entry("f"))), "/f", tmp_path / "f")


async def test_an_upload_that_did_not_arrive_is_an_error(tmp_path: Path) -> None:
    async def pipe(*_: object) -> tuple[Exit, str]:
        return Exit(1), "main.py: FAILED"

    with pytest.raises(SandboxError, match=r"main\.py: FAILED"):
        await _transfer.upload(pipe, b"x", "/w/main.py")
    with pytest.raises(SandboxError, match="cannot read"):
        await _transfer.upload(pipe, tmp_path / "nowhere", "/w/main.py")
