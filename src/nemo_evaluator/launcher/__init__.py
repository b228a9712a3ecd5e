"""Configs of the NeMo Evaluator Launcher (``nel run``): composed by Hydra, translated into configs of nel."""
