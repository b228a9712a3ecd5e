"""The processes that hold a local sandbox: keeper (one per evaluator), warden (one per sandbox), init (one per command).

They start without site-packages, in a few milliseconds, so everything in this folder uses the standard library alone.
"""
