"""Reads runs: folders, bundles, rows and the index beside them. No other package opens these files."""
