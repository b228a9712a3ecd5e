"""What runs in the sandbox when code is scored: a judge, and the program in a process of its own that the judge asks.
These modules travel into the sandbox as they are, so they import nothing but each other and what starts with Python."""
