"""Headers of an archive that a sandbox made: read with bounds, where the library would believe any number in them."""

from __future__ import annotations

import tarfile
from typing import Any, Final, NoReturn

# Long names and extended attributes; the library reads such a header whole.
_LARGEST: Final = 1 << 20
_EXTENDED: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class Header(tarfile.TarInfo):
    """A member's header. Raises TarError for one that claims too much, or that is sparse.

    Sparse files are refused: a few bytes of them can stand for terabytes, and no tar that we start writes them.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Header:
        """The header in a block."""
        header = super().frombuf(buf, encoding, errors)
        if header.type == tarfile.GNUTYPE_SPARSE:
            _refuse()
        if header.size < 0 or (header.type in _EXTENDED and header.size > _LARGEST):
            raise tarfile.TarError(f"a header with a size of {header.size} bytes")
        return header

    def _apply_pax_info(self, pax_headers: dict[str, str], encoding: str, errors: str) -> None:
        # Before the library reads a map of holes, and before it takes a size from here.
        if any(name.startswith("GNU.sparse") for name in pax_headers) or pax_headers.get("size", "0").startswith("-"):
            _refuse()
        super()._apply_pax_info(pax_headers, encoding, errors)  # type: ignore[misc]

    def _proc_gnusparse_10(self, *_: Any) -> NoReturn:
        _refuse()

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10


def _refuse() -> NoReturn:
    raise tarfile.TarError("a sparse file")
