"""Start a run from the flags of a command, and read its status."""
