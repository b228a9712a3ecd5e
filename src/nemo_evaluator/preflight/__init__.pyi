from nemo_evaluator.preflight.problems import find_problems as find_problems
