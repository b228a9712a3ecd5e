"""What vendors say of the batches that a run left with them."""

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
    """The status of a run that is no longer at work, with what vendors say of its batches that nobody has collected."""
    return asyncio.run(_with_answers(run, status))


async def _with_answers(run: RunMeta, status: RunOverview) -> RunOverview:
    endpoints: dict[str, Endpoint] = {}
    told = []
    for one in status.benchmarks:
        words: list[str] = []
        for path in sorted(TaskPaths(Path(status.output_dir) / one.name).batches.glob(f"*/{NAME}")):
            waves = [wave for wave in read_waves(path).values() if wave.state.open]
            try:
                if waves and not endpoints:
                    endpoints = _endpoints(run)
                if waves:
                    words += await _asked(endpoints[path.parent.name], waves)
            except (NelError, TimeoutError) as error:
                words.append(f"the vendor was not reached: {error or 'no answer in time'}")
        told.append(replace(one, reasons=(*one.reasons, *words)))
    return replace(status, benchmarks=told)


def _endpoints(run: RunMeta) -> dict[str, Endpoint]:
    """The services of the run's own config, by the names of their folders."""
    folder = run.place("config_dir")
    if folder is not None:
        use_env_file(Path(folder))
    services = load_config(Path(run.output_dir) / SNAPSHOT, folder=folder).config.services
    batched = {
        name: one for name, one in services.items() if getattr(one, "batch", None) is not None
    }
    return {safe_name(name): endpoint_of(name, one) for name, one in batched.items()}


async def _asked(endpoint: Endpoint, waves: list[Wave]) -> list[str]:
    vendor = vendor_of(endpoint)
    said = []
    try:
        async with asyncio.timeout(_LONGEST):
            for wave in waves:
                if not wave.batch:
                    said.append("whether the vendor got the batch shows when the run is resumed")
                    continue
                found = await vendor.look(wave.batch)
                if found.end:
                    how = f"ended ({found.end}): resume the run to collect it"
                else:
                    how = "is under way"
                if found.done is not None:
                    done = f", {found.done:,} of {len(wave.ids):,} done"
                else:
                    done = ""
                said.append(f"{wave.batch} {how}{done}")
    finally:
        await vendor.close()
    return said
