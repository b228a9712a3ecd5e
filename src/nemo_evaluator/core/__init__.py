"""Value types, error tree, failure policy, registry, secrets, hashing: imports nothing of ours."""
