"""Answers with a reader's verdict, made from templates by class; ``python -m tests.scoring.corpus`` prints error rates.

A template says what a model commits to (``%x``) and what it merely mentions (``%y``, ``%z``; capitals give the text of the
option, ``%q`` the question, ``%o`` its options). One that commits is filled twice: the right value as ``%x`` must be
scored right, and a wrong value as ``%x`` beside the right one as ``%y`` must not. One that commits to nothing must never be
scored right, wherever the right value stands. Every third template is held out: it was written before any tuning.
"""
