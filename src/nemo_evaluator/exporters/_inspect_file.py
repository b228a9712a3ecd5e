"""An Inspect log written row by row, in both of its forms, so that memory does not grow with the run. Inspect's own
writer holds every sample and compares each new one with all before it: minutes for 20,000 rows."""

import shutil
from contextlib import AbstractContextManager
from typing import IO, Any, Final
from zipfile import ZIP_DEFLATED, ZipFile

import orjson
from pydantic_core import to_jsonable_python

_LEVEL: Final = 5


class JsonFile(AbstractContextManager["JsonFile"]):
    """``.json``: one object; the samples come last, so that a reader of headers need not pass them. Until then they are
    an array in the file ``side``; in the other form that is one of their summaries."""

    def __init__(self, out: IO[bytes], side: IO[bytes]) -> None:
        self._out, self._side = out, side
        self._before = b"["

    def __exit__(self, *exc: object) -> None:
        return None

    def add(self, sample: Any) -> None:
        self._note(_json(sample))

    def finish(self, header: Any) -> None:
        self._out.write(_json(header)[:-1] + b',"samples":')
        self._copy_side(self._out)
        self._out.write(b"}")

    def _note(self, item: bytes) -> None:
        self._side.write(self._before + item)
        self._before = b","

    def _copy_side(self, out: IO[bytes]) -> None:
        self._side.write(b"[]" if self._before == b"[" else b"]")
        self._side.seek(0)
        shutil.copyfileobj(self._side, out)


class EvalFile(JsonFile):
    """``.eval``: a zip with a member a sample, their summaries, and the header."""

    def __init__(self, out: IO[bytes], side: IO[bytes]) -> None:
        super().__init__(out, side)
        self._zip = ZipFile(out, "w", compression=ZIP_DEFLATED, compresslevel=_LEVEL)

    def __exit__(self, *exc: object) -> None:
        self._zip.close()

    def add(self, sample: Any) -> None:
        """One member, and one entry among the summaries."""
        self._zip.writestr(f"samples/{sample.id}_epoch_{sample.epoch}.json", _json(sample))
        self._note(_json(sample.summary()))

    def finish(self, header: Any) -> None:
        """The summaries, the header, and the start record that readers of unfinished logs look at."""
        with self._zip.open("summaries.json", "w") as member:
            self._copy_side(member)
        start = {"version": header.version, "eval": header.eval, "plan": header.plan}
        self._zip.writestr("_journal/start.json", _json(start))
        self._zip.writestr("header.json", _json(header))


def _json(value: Any) -> bytes:
    """As Inspect writes it: no nulls; a number that JSON has no word for becomes null, which readers accept."""
    plain = to_jsonable_python(value, exclude_none=True, inf_nan_mode="constants")
    return orjson.dumps(plain, option=orjson.OPT_NON_STR_KEYS)
