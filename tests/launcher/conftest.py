"""Fixtures of the launcher's tests."""

from nel_support import nel, serve, sums

__all__ = ["nel", "serve", "sums"]
