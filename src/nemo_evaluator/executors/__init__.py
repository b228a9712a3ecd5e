"""Executors, which start runs; one file for each."""
