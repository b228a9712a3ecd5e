"""Comparing two runs: whether the candidate is worse than the baseline, better, or the same."""
