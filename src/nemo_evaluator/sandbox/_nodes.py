"""Nodes of a SLURM allocation on which sandboxes run: a slot is taken, used and given back, never shared."""

import asyncio
import os
import socket
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from nemo_evaluator.core.errors import SandboxError

_LOOPBACK = ("localhost", "127.0.0.1", "0.0.0.0", "::1")  # noqa: S104 - looked for, never bound


@dataclass(frozen=True, slots=True)
class Place:
    """One slot on one node."""

    node: str
    slot: int
    het_group: str | None = None

    def step(self, name: str) -> list[str]:
        """The start of a command that runs on the node, in a step with the given name."""
        group = [f"--het-group={self.het_group}"] if self.het_group else []
        where = ["--overlap", "--nodes=1", f"--nodelist={self.node}", "--ntasks=1", *group]
        return ["srun", *where, f"--job-name={name}"]


class NodeSlots:
    """The free slots. A slot in use is never given out twice."""

    def __init__(self, nodes: list[str], per_node: int, het_group: str | None = None) -> None:
        self.size = len(nodes) * per_node
        self._free: asyncio.Queue[Place] = asyncio.Queue()
        # Slot by slot over all nodes, so that the first sandboxes spread out.
        for slot in range(per_node):
            for node in nodes:
                self._free.put_nowait(Place(node, slot, het_group))

    @classmethod
    def from_environment(cls, per_node: int) -> Self | None:
        """The nodes that the batch script named in ``NEL_SANDBOX_NODES``; None when it named none."""
        nodes = [name for name in os.environ.get("NEL_SANDBOX_NODES", "").split(",") if name]
        return cls(nodes, per_node, os.environ.get("NEL_SANDBOX_HET_GROUP") or None) if nodes else None

    @staticmethod
    def require_job() -> None:
        """Raise SandboxError outside a job: every command would wait in the queue for an allocation of its own."""
        if "SLURM_JOB_ID" not in os.environ:
            raise SandboxError("not inside a SLURM job", hint="run nel in the job whose nodes NEL_SANDBOX_NODES names")

    async def take(self) -> Place:
        """A free slot; waits for one."""
        return await self._free.get()

    def give(self, place: Place) -> None:
        """Give a slot back."""
        self._free.put_nowait(place)

    @staticmethod
    def from_node(url: str) -> str:
        """A loopback URL of the evaluator as another node must write it."""
        parts = urlsplit(url)
        if parts.hostname not in _LOOPBACK:
            return url
        if parts.username is not None:
            raise SandboxError("a URL with a password in it is not carried to another node")
        host = socket.gethostname() + (f":{parts.port}" if parts.port else "")
        return urlunsplit((parts.scheme, host, parts.path, parts.query, parts.fragment))
