"""The SLURM executor: a plan of jobs, the script that follows from it, and the scheduler that is asked."""
