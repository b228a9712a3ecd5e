"""The ``nel`` command: each command parses its options, calls one function and prints the result."""
