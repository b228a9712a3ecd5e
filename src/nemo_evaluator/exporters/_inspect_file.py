"""An Inspect log written row by row, in both of its forms, so that memory does not grow with the run.

Inspect's own writer holds every sample and compares each new one with all before it: minutes for 20,000 rows.
"""

import shutil
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self
from zipfile import ZIP_DEFLATED, ZipFile

import orjson

from nemo_evaluator.exporters._optional import load

_LEVEL: Final = 5


class _Replacing:
    """A log that is being written; ``close`` puts it in its place, and what is not whole is thrown away."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._partial = target.with_name(f".{target.name}.writing")
        self._side = target.with_name(f".{target.name}.samples")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for path in (self._partial, self._side):
            path.unlink(missing_ok=True)


class EvalFile(_Replacing):
    """``.eval``: a zip with a member a sample, their summaries, and the header."""

    def __init__(self, target: Path) -> None:
        super().__init__(target)
        self._zip = ZipFile(self._partial, "w", compression=ZIP_DEFLATED, compresslevel=_LEVEL)
        self._summaries = _Array(self._side)

    def add(self, sample: Any) -> None:
        """One member, and one entry among the summaries."""
        self._zip.writestr(f"samples/{sample.id}_epoch_{sample.epoch}.json", _json(sample))
        self._summaries.add(_json(sample.summary()))

    def close(self, header: Any) -> None:
        """The summaries, the header, and the start record that readers of unfinished logs look at."""
        self._summaries.close()
        self._zip.write(self._side, "summaries.json")
        start = {"version": header.version, "eval": header.eval, "plan": header.plan}
        self._zip.writestr("_journal/start.json", _json(start))
        self._zip.writestr("header.json", _json(header))
        self._zip.close()
        self._partial.replace(self._target)


class JsonFile(_Replacing):
    """``.json``: one object; the samples come last, so that a reader of headers need not pass them."""

    def __init__(self, target: Path) -> None:
        super().__init__(target)
        self._samples = _Array(self._side)

    def add(self, sample: Any) -> None:
        """One entry of the array of samples."""
        self._samples.add(_json(sample))

    def close(self, header: Any) -> None:
        """The header with the array behind it."""
        self._samples.close()
        with self._partial.open("wb") as out, self._side.open("rb") as samples:
            out.write(_json(header)[:-1] + b',"samples":')
            shutil.copyfileobj(samples, out)
            out.write(b"}")
        self._partial.replace(self._target)


class _Array:
    """A JSON array on disk."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("wb")
        self._before = b"["

    def add(self, item: bytes) -> None:
        self._file.write(self._before + item)
        self._before = b","

    def close(self) -> None:
        self._file.write(b"[]" if self._before == b"[" else b"]")
        self._file.close()


def _json(value: Any) -> bytes:
    """As Inspect writes it: no nulls; a number that JSON has no word for becomes null, which readers accept."""
    plain = load("pydantic_core").to_jsonable_python(value, exclude_none=True, inf_nan_mode="constants")
    return orjson.dumps(plain, option=orjson.OPT_NON_STR_KEYS)
