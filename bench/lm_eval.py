"""CPU of one request of an lm-eval task: by our client against lm-eval's own clients for the same server.

``python -m bench.lm_eval`` prints both and their ratio; the scripted server runs in a process of its own.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import time
from typing import Any

import uvloop

from bench._measure import server
from bench.client import PROMPT, spread
from nemo_evaluator.adapters.in_process import open_client
from nemo_evaluator.cli.main import COLLECTIONS
from nemo_evaluator.core.types import PromptRequest
from nemo_evaluator.models import Endpoint
from nemo_evaluator.solvers.simple import send_all

PATHS = {"completions": "completions", "chat_completions": "chat/completions"}


async def ours(url: str, protocol: str, count: int, width: int) -> float:
    """CPU seconds of the requests that ``lm-eval://`` makes."""
    endpoint = Endpoint("m", url, protocol=protocol, max_concurrent=width)
    settings = {"temperature": 0.0, "max_tokens": 16, "stop": ["\n\n"]}
    async with open_client(endpoint) as client:

        async def call(number: int) -> None:
            await send_all(client, [PromptRequest(f"{number} {PROMPT}", generation=settings)], None)

        return await spread(count, width, call)


def theirs(url: str, protocol: str, count: int, width: int) -> float:
    """CPU seconds of lm-eval's own client."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.api_models import JsonChatStr
    from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI

    kind: Any = LocalCompletionsAPI if protocol == "completions" else LocalChatCompletion
    model = kind(
        base_url=f"{url}/{PATHS[protocol]}", model="m", tokenizer_backend=None, num_concurrent=width
    )
    prompts: list[Any] = [f"{number} {PROMPT}" for number in range(count)]
    if protocol != "completions":
        prompts = [
            JsonChatStr(json.dumps([{"role": "user", "content": prompt}])) for prompt in prompts
        ]
    settings = {"until": ["\n\n"], "max_gen_toks": 16, "temperature": 0.0}
    asked = [
        Instance("generate_until", {}, (prompt, settings), at) for at, prompt in enumerate(prompts)
    ]
    started = time.process_time()
    assert len(model.generate_until(asked, disable_tqdm=True)) == count
    return time.process_time() - started


def rows(count: int = 2000, width: int = 128, rounds: int = 5) -> list[dict[str, Any]]:
    """For the table of ``make bench``; none where the extra ``lm-eval`` is not installed."""
    found: list[dict[str, Any]] = []
    if importlib.util.find_spec("lm_eval") is None:
        print("lm_eval is not installed: left out")
        return found
    with server("--answer", "The answer is 42.") as url:
        for protocol in PATHS:
            # In turns, each as its command runs it: `nel` looks for garbage less often than Python does by itself.
            own, other, usual = [], [], gc.get_threshold()
            for _ in range(rounds):
                gc.set_threshold(*COLLECTIONS)
                own.append(uvloop.run(ours(url, protocol, count, width)) / count)
                gc.set_threshold(*usual)
                other.append(theirs(url, protocol, count, width) / count)
            name = f"lm-eval: CPU per request, local-{protocol.replace('_', '-')}"
            found += [
                {"name": f"{name}, ours", "value": 1e6 * min(own), "unit": "µs", "limit": None},
                {
                    "name": f"{name}, its own client",
                    "value": 1e6 * min(other),
                    "unit": "µs",
                    "limit": None,
                },
                {
                    "name": f"{name}, its own / ours",
                    "value": min(other) / min(own),
                    "unit": "x",
                    "limit": 5.0,
                    "at_least": True,
                },
            ]
    return found


if __name__ == "__main__":
    for row in rows():
        print(f"{row['name']:65} {row['value']:8.2f} {row['unit']}")
