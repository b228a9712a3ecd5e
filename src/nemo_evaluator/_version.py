"""The version: the one place that says it (the build reads it here)."""

__version__ = "0.5.0"
