"""The files of a run: the journal, which is the source of truth, and the files that are made from it."""
