"""Sandboxes: places where untrusted code runs."""
