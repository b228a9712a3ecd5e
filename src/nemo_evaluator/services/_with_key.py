"""Runs a server module with an API key that is in no process list: ``_with_key.py KEY_FD MODULE ARGUMENTS...``.

Started by path, with the standard library alone, by whichever Python has the server installed.
"""

import os
import runpy
import sys

if __name__ == "__main__":
    with os.fdopen(int(sys.argv[1])) as pipe:
        key = pipe.read().strip()
    sys.argv = [*sys.argv[2:], "--api-key", key]
    # The folder of this file must not shadow modules that the server imports.
    sys.path.pop(0)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
