"""Where problems come from by URI: a file per scheme, ``lm_eval.py`` for ``lm-eval://``."""
