"""The web viewer: a loopback server that reads runs through ``nemo_evaluator.runs``, and its pages in ``static``."""
