"""What is known of a model call, under the path where solvers look for it."""
