"""A real vLLM on the CPU, by the plan that a machine with GPUs gets: ``make test-all`` installs and runs it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from nel_support import Nel, bench, free_ports, marked, rows

# A solver as a user would write it: how likely the model finds an answer.
WEIGHER = """
import json
from nemo_evaluator import SolveResult

class Weigher:
    def __init__(self, client):
        self.client = client
    async def solve(self, task):
        text = "The capital of France is Paris"
        reply = await self.client.loglikelihood(text, len(text) - len(" Paris"))
        return SolveResult(response=str(json.loads(reply.content)[0]))
"""


CAPITALS = """
from nemo_evaluator import ScorerInput, benchmark, scorer

CITIES = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "Egypt": "Cairo", "Peru": "Lima"}

def rows():
    return [{"country": one, "city": CITIES[one], "n": n} for n in range(2) for one in CITIES]

@benchmark(name="capitals", dataset=rows, prompt="What is the capital of {country}?", target_field="city")
@scorer
def score(sample: ScorerInput) -> dict:
    return {"correct": sample.target in sample.response}
"""


@pytest.mark.large
@pytest.mark.serial
@pytest.mark.needs("vllm")
def test_two_real_servers_finish_a_benchmark_and_weigh_a_text(
    nel: Nel, tmp_path: Path, vllm_dir: Path
) -> None:
    (tmp_path / "weigher.py").write_text(WEIGHER)
    (tmp_path / "capitals.py").write_text(CAPITALS)
    nel.env["PATH"] = f"{vllm_dir / 'bin'}{os.pathsep}{nel.env['PATH']}"
    served = {
        "type": "vllm",
        "model": str(vllm_dir / "smollm2-135m"),
        "protocol": "chat_completions",
        "gpus": 0,
        "port": free_ports(2),
        "replicas": 2,
        "startup_timeout": 1200,
        "extra_args": ["--max-model-len", "1024", "--dtype", "float32", "--enforce-eager"],
        "extra_env": {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "MARK": str(tmp_path)},
        "generation": {"max_tokens": 128, "stop": ["."], "temperature": 0},
        "timeouts": {"first_byte": 600, "total": 900},
    }
    solver = {"type": "custom", "service": "model", "class_path": "weigher.py:Weigher"}
    likely = bench("capitals.py", id="likely", max_problems=1) | {"solver": solver}
    both = [bench("capitals.py", max_concurrent=4, id="capitals"), likely]
    config = nel.config("c.json", services={"model": served}, benchmarks=both, output={"dir": "o"})
    done = nel("eval", "run", config, timeout=1800)
    logs = [
        (tmp_path / "o" / "logs" / f"server-model-{number}.log").read_text() for number in range(2)
    ]
    # One request of each is the token that readiness asks for.
    assert all(log.count('POST /v1/chat/completions HTTP/1.1" 200') > 2 for log in logs), logs
    scored = rows(tmp_path / "o" / "capitals")
    assert len(scored) == 12 and all(
        row["status"] == "scored" and row["model_response"].strip() for row in scored
    )
    (weighed,) = rows(tmp_path / "o" / "likely")
    # What transformers says of the same weights.
    assert float(weighed["model_response"]) == pytest.approx(-0.258, abs=0.02)
    bundle = json.loads(next((tmp_path / "o" / "capitals").glob("eval-*.json")).read_text())
    assert bundle["validity"]["status"] == "VALID", done.stdout
    assert marked(str(tmp_path)) == []
