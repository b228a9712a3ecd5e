"""Measurements of cost, as ratios taken in one run: ``python -m bench [NAME …]``."""
