"""Solvers: one file per kind."""
