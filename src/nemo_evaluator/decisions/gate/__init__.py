"""The gate: whether a policy allows a candidate to be released."""
