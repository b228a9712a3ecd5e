"""What both ends of the pipe know: the kinds of replies and requests, and the name of the program's file."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from typing import Final

FILE: Final = "main.py"
# Kinds of replies.
VALUE: Final = 0
RAISED: Final = 1
# The end of an iteration.
STOPPED: Final = 2
# A missing name or attribute.
MISSING: Final = 3
# The program ended.
ENDED: Final = 4
# The program is not valid Python.
SYNTAX: Final = 5
# The program calls a function of the tests.
CALLBACK: Final = 6
# A call returned nothing; these are its arguments, which it may have changed.
CHANGED: Final = 7
# Requests that are not an action: the result of a function of the tests, and the exception that it raised.
RETURNED: Final = "returned"
FAILED: Final = "failed"
