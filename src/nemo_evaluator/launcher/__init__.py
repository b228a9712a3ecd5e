"""The launcher's dialect (``nel run``): its YAML is composed by Hydra and translated into a config of ours."""
