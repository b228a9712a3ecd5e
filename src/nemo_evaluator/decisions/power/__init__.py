"""How many problems and repeats a question needs."""
