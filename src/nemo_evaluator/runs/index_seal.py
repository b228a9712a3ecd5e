"""The seal of an index: proof that this user's nel wrote it, for the file of rows that lies beside it now.

A run's folder may come from somebody else, and then its index does, too. The seal is a keyed digest of all that the
index holds. The key is in the user's own data folder, so nobody else can make a seal that fits.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

import orjson

from nemo_evaluator.store.run_registry import registry_dir

KEY_FILE: Final = "index.key"
_KEY_BYTES: Final = 32
_CELL_DIGEST_BYTES: Final = 16
# Everything that the seal covers, in an order that does not change. Cells are covered by their digests.
_SEALED: Final = (
    "SELECT name, upto, known, stamp, state FROM source",
    "SELECT code, word FROM words ORDER BY code",
    "SELECT piece, rows, failed, rewards, sum, cost, low, high FROM pieces ORDER BY piece",
    "SELECT id, hex(digest) FROM cells ORDER BY id",
)


def cell_digest(data: bytes) -> bytes:
    """The digest that stands beside the data of a cell."""
    return blake2b(data, digest_size=_CELL_DIGEST_BYTES).digest()


def seal_of(db: sqlite3.Connection) -> bytes:
    """The seal that fits what an index holds now."""
    digest = blake2b(key=_key(registry_dir().parent / KEY_FILE))
    for query in _SEALED:
        for row in db.execute(query):
            digest.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        digest.update(b"\0")
    return digest.digest()


def write_seal(db: sqlite3.Connection) -> None:
    """Seal what an index holds now; part of the transaction that changed it."""
    db.execute("UPDATE source SET seal = ?", (seal_of(db),))


def is_sealed(db: sqlite3.Connection) -> bool:
    """Whether an index holds exactly what was sealed with this user's key."""
    seals = db.execute("SELECT seal FROM source LIMIT 2").fetchall()
    if len(seals) != 1 or type(seals[0][0]) is not bytes:
        return False
    return hmac.compare_digest(seals[0][0], seal_of(db))


@cache
def _key(path: Path) -> bytes:
    """The key in a file, which is made where there is none.

    Where it cannot be kept, the key holds for this process alone: other processes build their index anew.
    """
    fresh = secrets.token_bytes(_KEY_BYTES)
    try:
        return _stored_key(path, fresh)
    except OSError:
        return fresh


def _stored_key(path: Path, fresh: bytes) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    # The key appears under its name only when it is whole; of two processes that make one, the first wins.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    if not path.exists():
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, fresh)
        finally:
            os.close(descriptor)
        try:
            os.link(temporary, path)
        except FileExistsError:
            # Another process was quicker: its key counts.
            pass
        finally:
            temporary.unlink()
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        path.unlink()
        return _stored_key(path, fresh)
    return key
