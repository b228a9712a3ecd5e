"""Requests through vendors' batch APIs, so that they survive the end of the process that made them."""
