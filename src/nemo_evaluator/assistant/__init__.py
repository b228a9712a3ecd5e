"""Helpers for setting up and checking evaluations: configs, recipes, checkpoints, canaries, canonical scores."""
