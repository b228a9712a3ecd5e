"""What a run leaves on disk: the journal, which is the truth, and the views made from it."""
