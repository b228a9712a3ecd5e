"""The seal of an index proves that this user's nel wrote it, for the file of rows that is beside it now.

A run's folder may come from somebody else, and so may its index. The seal is a keyed digest of everything in the
index. The key is in the user's own data folder, so nobody else can make a matching seal.
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
# Everything that the seal covers, in a fixed order. Cells are covered through their digests.
_SEALED: Final = (
    "SELECT name, upto, known, stamp, state FROM source",
    "SELECT code, word FROM words ORDER BY code",
    "SELECT piece, rows, failed, rewards, sum, cost, low, high FROM pieces ORDER BY piece",
    "SELECT id, hex(digest) FROM cells ORDER BY id",
)


def cell_digest(data: bytes) -> bytes:
    """Return the digest that is stored beside the data of a cell."""
    return blake2b(data, digest_size=_CELL_DIGEST_BYTES).digest()


def seal_of(db: sqlite3.Connection) -> bytes:
    """Return the seal that matches the current content of an index."""
    digest = blake2b(key=_key(registry_dir().parent / KEY_FILE))
    for query in _SEALED:
        for row in db.execute(query):
            digest.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        digest.update(b"\0")
    return digest.digest()


def write_seal(db: sqlite3.Connection) -> None:
    """Seal the current content of an index, within the transaction that changed it."""
    db.execute("UPDATE source SET seal = ?", (seal_of(db),))


def is_sealed(db: sqlite3.Connection) -> bool:
    """Return whether the content of an index matches a seal made with this user's key."""
    seals = db.execute("SELECT seal FROM source LIMIT 2").fetchall()
    if len(seals) != 1 or type(seals[0][0]) is not bytes:
        return False
    return hmac.compare_digest(seals[0][0], seal_of(db))


@cache
def _key(path: Path) -> bytes:
    """Return the key in a file, which is created if it does not exist.

    If the key cannot be stored, it is valid for this process only, and other processes rebuild their index.
    """
    fresh = secrets.token_bytes(_KEY_BYTES)
    try:
        return _stored_key(path, fresh)
    except OSError:
        return fresh


def _stored_key(path: Path, fresh: bytes) -> bytes:
    """Read the key from its file; store ``fresh`` first if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The file gets its name only once it is complete; of two processes that create a key, the first one wins.
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
            # Another process was faster; its key is used.
            pass
        finally:
            temporary.unlink()
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        path.unlink()
        return _stored_key(path, fresh)
    return key
