"""One server process of ours: how it is started, watched, asked whether it is up, and surely ended."""
