"""From the flags of a command to a started run, and what is known of it from then on."""
