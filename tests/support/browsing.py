"""Waiting in a page whose policy forbids scripts of others, so that the browser's own way to wait is refused."""

from __future__ import annotations

import time
from typing import Any


def until(page: Any, expression: str, seconds: float = 60.0) -> None:
    """Wait until an expression holds in a page."""
    end = time.monotonic() + seconds
    while not page.evaluate(
        f"() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }}"
    ):
        assert time.monotonic() < end, (
            f"never came true: {expression}\n{page.locator('body').inner_text()[:2000]}"
        )
        page.wait_for_timeout(40)
