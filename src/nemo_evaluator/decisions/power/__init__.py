"""How many problems, repeats and labels a comparison needs."""
