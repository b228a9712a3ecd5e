"""nel: an evaluator for language models and agents."""
