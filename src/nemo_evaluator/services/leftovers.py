"""What a run left behind that was killed together with its guards. Anything less than that, the guards clean up."""

import asyncio
import os
import signal
from contextlib import suppress
from typing import Final

from nemo_evaluator.core.processes import command_of, marked_processes, processes_of_sessions
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.services._guard import MARK
from nemo_evaluator.services.base import Say

_GUARD: Final = "nemo_evaluator.services._guard"


async def sweep_leftovers(say: Say, *, containers: bool) -> None:
    """End the servers whose guard is gone and, if asked, remove the containers whose run is gone."""
    marked = marked_processes(MARK)
    gone = {guard for guard in marked.values() if _GUARD not in command_of(guard)}
    # Some servers write their title over the environment of their processes; their session is still the guard's.
    lost = {pid for pid, guard in marked.items() if guard in gone} | processes_of_sessions(gone)
    for pid in lost:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if lost:
        say(f"Ended {len(lost)} server process(es) that a killed run had left behind")
    if containers:
        # Loaded by name: most servers are no containers.
        inventory = "nemo_evaluator.sandbox.inventory"
        found = await load_object(f"{inventory}:find_sandboxes")()
        orphans = [one for one in found if one.orphan and one.name.startswith("service ")]
        removed = await load_object(f"{inventory}:remove_sandboxes")(orphans)
        if removed:
            say(f"Removed {len(removed)} server container(s) that a killed run had left behind")


def sweep_now(say: Say) -> None:
    """The same from a command."""
    asyncio.run(sweep_leftovers(say, containers=True))
