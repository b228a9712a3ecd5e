"""``skills://``: NeMo Skills."""

from __future__ import annotations

from typing import Final

from nemo_evaluator.core.kinds import NOT_YET, Kind

KIND: Final = Kind(missing=NOT_YET)
