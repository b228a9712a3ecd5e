"""The worker of a Ray cluster: builds a benchmark from the same config and runs its steps."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from nemo_evaluator.config import parse_eval_config
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import config_folder
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets.settings import use_datasets
from nemo_evaluator.engine.pool import Halted, Lease, Reply
from nemo_evaluator.engine.step_host import StepHost
from nemo_evaluator.services import RunningService
from nemo_evaluator.suite.build import Builder

if TYPE_CHECKING:
    from nemo_evaluator.models.budget_charges import Charges
    from nemo_evaluator.store.journal_record import FingerprintParts

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """One benchmark, as it is sent to a worker. It is never stored."""

    raw: JsonDict
    variables: dict[str, str]
    benchmark: str
    # Without their API keys, which are in ``keys``.
    running: dict[str, RunningService]
    keys: dict[str, str]
    run_id: str
    output_dir: str
    cwd: str
    folder: str | None
    host: str = field(default_factory=socket.gethostname)

    def check_node(self) -> None:
        """Check that this node can run the task.

        Raises:
            UsageError: If the run's folder is missing, or a service URL points to the node itself.
        """
        hostname = socket.gethostname()
        if not Path(self.cwd).is_dir():
            hint = "the folder of the run must be reachable under the same path on every node of the cluster"
            raise UsageError(f"{self.cwd} does not exist on {hostname}", hint=hint)
        for name, service in self.running.items():
            if hostname != self.host and urlsplit(service.url).hostname in _LOOPBACK:
                hint = "give it a URL that every node of the cluster reaches (`type: api`)"
                raise UsageError(
                    f"service {name!r} is at {service.url}, which {hostname} cannot reach",
                    hint=hint,
                )


class StepWorker:
    """A Ray actor that runs steps of one benchmark at a time."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._host: StepHost | None = None

    async def open(self, task: WorkerTask, scored: int, reused: int) -> FingerprintParts:
        """Build a benchmark and prepare it.

        Args:
            task: The benchmark.
            scored: Steps scored so far.
            reused: Steps reused from earlier sessions.

        Returns:
            Its fingerprints.
        """
        await self._stack.aclose()
        os.environ.update(task.variables)
        task.check_node()
        os.chdir(task.cwd)
        config = parse_eval_config(task.raw)
        config_folder.set(Path(task.folder) if task.folder is not None else None)
        use_datasets(config.datasets)
        running: dict[str, RunningService] = {}
        for name, service in task.running.items():
            api_key = Secret(task.keys[name]) if name in task.keys else None
            running[name] = replace(service, api_key=api_key)
        self._stack = AsyncExitStack()
        builder = Builder(config, running, task.run_id)
        output_dir = Path(task.output_dir)
        job = await builder.build(task.benchmark, output_dir, self._stack, resume=False, shard=None)
        self._host = StepHost(job)
        return await self._host.open(scored, reused)

    async def exchange(
        self, leases: Sequence[Lease], halted: Halted | None, elsewhere: Sequence[Charges]
    ) -> Reply:
        """Accept steps, and return the records produced since the last call."""
        assert self._host is not None
        return await self._host.exchange(leases, halted, elsewhere)

    async def close(self) -> Reply:
        """Cancel the running steps and close everything.

        Returns:
            The records that have not been delivered yet.
        """
        reply = Reply()
        if self._host is not None:
            reply = await self._host.close()
        await self._stack.aclose()
        return reply
