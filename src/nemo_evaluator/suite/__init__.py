"""Runs a whole config: starts services, runs the benchmarks, writes reports and exports, stops services."""
