"""Ask vendors about the state of batches that a stopped run left with them."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Final

from nemo_evaluator.config import SNAPSHOT, load_config
from nemo_evaluator.config.env_file import use_env_file
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.launch.status import RunOverview
from nemo_evaluator.models.batch.ledger import NAME, Wave, read_waves
from nemo_evaluator.models.batch.transport import vendor_of
from nemo_evaluator.models.endpoint import Endpoint, endpoint_of
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.run_registry import RunMeta

_LONGEST: Final = 15.0


def ask_vendors(run: RunMeta, status: RunOverview) -> RunOverview:
    """Add the vendors' state of uncollected batches to the status of a run that has stopped.

    Args:
        run: The run.
        status: Its status.
    """
    return asyncio.run(_with_answers(run, status))


async def _with_answers(run: RunMeta, status: RunOverview) -> RunOverview:
    """Ask each vendor about the open batches, and add its answers to the benchmarks' reasons."""
    endpoints: dict[str, Endpoint] = {}
    benchmarks = []
    for benchmark in status.benchmarks:
        lines: list[str] = []
        batches = TaskPaths(Path(status.output_dir) / benchmark.name).batches
        for path in sorted(batches.glob(f"*/{NAME}")):
            waves = [wave for wave in read_waves(path).values() if wave.state.open]
            if not waves:
                continue
            try:
                if not endpoints:
                    endpoints = _endpoints(run)
                lines += await _describe_batches(endpoints[path.parent.name], waves)
            except (NelError, TimeoutError) as error:
                lines.append(f"could not reach the vendor: {error or 'no answer in time'}")
        benchmarks.append(replace(benchmark, reasons=(*benchmark.reasons, *lines)))
    return replace(status, benchmarks=benchmarks)


def _endpoints(run: RunMeta) -> dict[str, Endpoint]:
    """Return the endpoints of the run's batch services, by the names of their folders."""
    folder = run.place("config_dir")
    if folder is not None:
        use_env_file(Path(folder))
    services = load_config(Path(run.output_dir) / SNAPSHOT, folder=folder).config.services
    endpoints: dict[str, Endpoint] = {}
    for name, service in services.items():
        if getattr(service, "batch", None) is not None:
            endpoints[safe_name(name)] = endpoint_of(name, service)
    return endpoints


async def _describe_batches(endpoint: Endpoint, waves: list[Wave]) -> list[str]:
    """Describe the state of each batch on one line.

    Raises:
        NelError: If the request to the vendor fails.
        TimeoutError: If the vendor does not answer in time.
    """
    vendor = vendor_of(endpoint)
    lines = []
    try:
        async with asyncio.timeout(_LONGEST):
            for wave in waves:
                if not wave.batch:
                    lines.append(
                        "unknown whether the batch was submitted; resume the run to find out"
                    )
                    continue
                batch = await vendor.look(wave.batch)
                line = f"{wave.batch} is under way"
                if batch.end:
                    line = f"{wave.batch} ended ({batch.end}): resume the run to collect it"
                if batch.done is not None:
                    line += f", {batch.done:,} of {len(wave.ids):,} done"
                lines.append(line)
    finally:
        await vendor.close()
    return lines
