"""Kinds of a third party."""
