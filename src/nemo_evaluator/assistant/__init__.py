"""What helps to set an evaluation up and to trust it: configs from a few answers, checkpoints, canaries, scores."""
