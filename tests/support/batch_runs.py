"""Runs whose model is reached through a vendor's batches: their configs, and what must be true of them at the end."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from anthropic_batches import AnthropicBatches
from batch_server import BatchServer
from nel_support import SUMS, api, bench, rows
from openai_batches import OpenAIBatches

from nemo_evaluator.testing import Seen

SERVERS: dict[str, type[BatchServer]] = {"openai": OpenAIBatches, "anthropic": AnthropicBatches}


def double(seen: Seen) -> str:
    """The right answer."""
    return str(2 * int(seen.prompt.split()[3]))


def write(
    folder: Path, server: BatchServer, size: int, judge: dict[str, Any] | None = None, **more: Any
) -> None:
    """A config with one benchmark whose model is reached through batches."""
    (folder / "sums.py").write_text(SUMS.format(size=size))
    provider = next(name for name, kind in SERVERS.items() if isinstance(server, kind))
    batch = {"provider": provider, "max_requests": size, **more}
    # The stand-in answers a whole batch at once: thousands take it a while.
    waits = (
        {"first_byte": 1.0, "outage": 5.0} if size < 100 else {"first_byte": 10.0, "outage": 60.0}
    )
    generation = {"max_tokens": 16}
    model = api(server.url, api_key="k", batch=batch, timeouts=waits, generation=generation)
    config = {
        "services": {"model": model},
        "benchmarks": [bench("sums.py")],
        "output": {"dir": "out"},
    }
    (folder / "c.yaml").write_text(json.dumps(config))


def check_whole(folder: Path, server: BatchServer, size: int) -> None:
    """Every problem has one scored row and one answer, was paid for once, and was in one batch."""
    scored = rows(folder / "out" / "sums")
    assert [row["reward"] for row in scored] == [1.0] * size, (folder / "nel.log").read_text()
    assert sorted(server.answered.values()) == [1] * size
    submitted = Counter(
        row.custom_id.rpartition("-")[2] for one in server.batches.values() for row in one.requests
    )
    assert set(submitted.values()) == {1}
    records = map(json.loads, (folder / "out" / "sums" / "journal.jsonl").read_text().splitlines())
    answers = Counter(record["problem_idx"] for record in records if record["kind"] == "answer")
    assert answers == dict.fromkeys(range(size), 1)
