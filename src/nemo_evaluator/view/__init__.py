"""The web viewer: a server on loopback that reads runs through ``nemo_evaluator.runs``, and its pages in ``static``."""
