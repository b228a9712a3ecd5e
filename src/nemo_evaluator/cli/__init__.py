"""The ``nel`` command: each command parses, calls one function, prints; those that belong together share a file."""
