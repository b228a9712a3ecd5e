"""One writer a folder: who holds it is said, the dead do not hold anything."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nemo_evaluator.core.storage import StorageError
from nemo_evaluator.store.lock import FILE, LockedError, ensure_free, folder_lock, holder_of

HOLD = "import sys, time; from pathlib import Path; from nemo_evaluator.store.lock import folder_lock\n"
HOLD += "with folder_lock(Path(sys.argv[1]), run_id='20260101_000000_abcdef01'): print('held', flush=True); time.sleep(60)"


def test_a_second_one_is_told_who_holds_it_and_what_to_do(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(
            LockedError, match=rf"run 20260101_000000_abcdef01, pid {other.pid} on "
        ) as caught:
            folder_lock(tmp_path).__enter__()
        assert "nel eval stop" in str(caught.value.hint)
        holder = holder_of(tmp_path)
        assert holder is not None
        assert holder.pid == other.pid
        other.kill()
        other.wait()
        # Killed: its file is there, and holds nobody up.
        assert (tmp_path / FILE).exists()
        assert holder_of(tmp_path) is None
        with folder_lock(tmp_path):
            assert json.loads((tmp_path / FILE).read_text())["pid"] == os.getpid()
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(("silent", "free"), [(5, False), (3600, True)])
def test_the_lock_of_another_host_is_taken_over_once_it_is_silent(
    tmp_path: Path, silent: int, free: bool
) -> None:
    file = tmp_path / FILE
    file.write_text(json.dumps({"host": "elsewhere", "pid": 7, "since": "then", "run_id": "r"}))
    os.utime(file, (time.time() - silent,) * 2)
    said: list[str] = []
    if free:
        with folder_lock(tmp_path, say=said.append):
            pass
        assert "took over from run r, pid 7 on elsewhere" in said[0]
    else:
        with pytest.raises(LockedError, match="pid 7 on elsewhere") as caught:
            folder_lock(tmp_path, say=said.append).__enter__()
        assert "taken over" in str(caught.value.hint)
        with pytest.raises(LockedError):
            ensure_free(tmp_path)


MANY = """
import sys
from pathlib import Path
from nemo_evaluator.store.lock import LockedError, folder_lock
root, won = Path(sys.argv[1]), 0
for _ in range(200):
    try:
        with folder_lock(root):
            (root / "inside").mkdir()
            (root / "inside").rmdir()
            won += 1
    except LockedError:
        pass
print(won)
"""


def test_many_at_once_get_it_one_after_another(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("left behind")
    os.utime(tmp_path / FILE, (0, 0))
    many = [
        subprocess.Popen([sys.executable, "-c", MANY, str(tmp_path)], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    won = [int(process.communicate()[0]) for process in many]
    assert all(process.returncode == 0 for process in many)
    assert sum(won) > 0


def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Not a directory"):
        folder_lock(tmp_path / "file" / "out").__enter__()


LOOK = """
import sys
from pathlib import Path
from nemo_evaluator.store.lock import holder_of
print("looking", flush=True)
while True:
    holder_of(Path(sys.argv[1]))
"""


def test_who_only_looks_keeps_nobody_out(tmp_path: Path) -> None:
    """A status that is asked for again and again, while a killed run is resumed."""
    with subprocess.Popen(
        [sys.executable, "-c", LOOK, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as looker:
        assert looker.stdout is not None
        assert looker.stdout.readline() == "looking\n"
        try:
            for _ in range(300):
                # What a killed run leaves.
                (tmp_path / FILE).write_text(json.dumps({"host": socket.gethostname(), "pid": 7}))
                with folder_lock(tmp_path):
                    pass
        finally:
            looker.kill()


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_lock_file_that_names_no_process(tmp_path: Path, content: str) -> None:
    with folder_lock(tmp_path):
        (tmp_path / FILE).write_text(content)
        with pytest.raises(LockedError) as caught:
            ensure_free(tmp_path)
    message = f"{tmp_path} is in use by another process, which nel.lock does not name"
    assert caught.value.message == message
