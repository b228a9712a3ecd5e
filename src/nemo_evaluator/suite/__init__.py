"""A whole config: services up, benchmarks one after another, reports, exports, services down."""
