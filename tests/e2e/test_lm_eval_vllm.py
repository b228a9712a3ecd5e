"""Against real weights in vLLM: lm-eval's own scores to the last digit, its log-probabilities to 1e-4."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from lm_eval_runs import assert_equal, bench, go_offline, ours, theirs
from nel_support import Nel

from nemo_evaluator.core.processes import free_port

pytestmark = [
    pytest.mark.large,
    pytest.mark.serial,
    pytest.mark.needs("vllm", "lm_eval", "transformers"),
]
NAMES = [
    "t_choice",
    "t_number",
    "t_bbh",
    "t_vote",
    "t_rolling",
    "t_lambada",
    "t_custom",
    "g_weighted",
    "g_plain",
]


@pytest.fixture
def server(vllm_dir: Path, tmp_path: Path) -> Iterator[str]:
    """vLLM without its prefix cache: what was asked before does not change the last digits."""
    port = free_port()
    words = [
        vllm_dir / "bin" / "python",
        "-m",
        "vllm.entrypoints.cli.main",
        "serve",
        vllm_dir / "smollm2-135m",
    ]
    words += [
        "--served-model-name",
        "m",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--max-model-len",
        "2048",
    ]
    words += ["--dtype", "float32", "--enforce-eager", "--no-enable-prefix-caching"]
    env = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with (tmp_path / "vllm.log").open("wb") as log:
        process = subprocess.Popen(words, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        for _ in range(1200):
            assert process.poll() is None, (tmp_path / "vllm.log").read_text()[-3000:]
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                time.sleep(1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(60)


def test_scores_of_a_real_model_are_those_of_lm_eval(
    server: str, vllm_dir: Path, nel: Nel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lm_eval_tasks").write_tasks(tmp_path)
    go_offline(monkeypatch)
    weights = vllm_dir / "smollm2-135m"
    expected = [theirs(server, [name], tmp_path, weights, limit=6) for name in NAMES]
    # One request at a time, as lm-eval sends them: sums over another batch differ in the last digits.
    benches = [bench(name, tmp_path, tokenizer=str(weights), limit=6) for name in NAMES]
    tasks = ours(nel, server, *benches, max_concurrent=1)
    for found, task in zip(expected, tasks, strict=True):
        assert_equal(found, task)
