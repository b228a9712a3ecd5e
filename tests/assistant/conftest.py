"""Fixtures of the end-to-end tests, for this room."""

from nel_support import nel, serve, sums

__all__ = ["nel", "serve", "sums"]
