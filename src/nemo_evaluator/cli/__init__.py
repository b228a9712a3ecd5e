"""The ``nel`` command: one file per command; each parses, calls one function, prints."""
