"""The processes that hold a local sandbox: a keeper per evaluator, a warden per sandbox, an init per command.

They start without site-packages, in a few milliseconds, so everything in this folder uses the standard library alone.
"""
