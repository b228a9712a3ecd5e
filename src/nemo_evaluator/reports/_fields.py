"""Which fields files have, in their order: columns of the CSV, keys of the JSON, what a trajectory should hold."""

from pathlib import Path
from typing import Final

import orjson

_FILE: Final = Path(__file__).with_name("fields.json")
FIELDS: Final[dict[str, tuple[str, ...]]] = {
    name: tuple(fields) for name, fields in orjson.loads(_FILE.read_bytes()).items()
}
