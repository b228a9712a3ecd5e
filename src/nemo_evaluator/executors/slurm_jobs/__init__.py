"""The SLURM executor: plans jobs, renders their script, and queries the scheduler."""
