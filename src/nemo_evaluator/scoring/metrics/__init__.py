"""The kinds of metric, one file each: its settings and how it is built from them."""
