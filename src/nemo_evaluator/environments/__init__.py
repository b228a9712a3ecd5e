"""Environments: the contract, the @benchmark API, URI schemes."""
