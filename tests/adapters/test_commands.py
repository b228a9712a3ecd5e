"""``nel proxy`` and ``nel cache`` from the command line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from nemo_evaluator.adapters.cache_store import AnswerStore
from nemo_evaluator.testing import ScriptedServer

NEL = [sys.executable, "-m", "nemo_evaluator.cli.main"]
# The proxy example of the README, but for the URL.
README = """
services:
  nemotron:
    type: api
    url: {url}/chat/completions
    protocol: chat_completions
    model: nvidia/nemotron-3-super-120b-a12b
    api_key: ${{NVIDIA_API_KEY}}
    proxy:
      request_timeout: 600
      interceptors:
        - name: turn_counter
          config:
            max_turns: 100
        - name: drop_params
          config:
            params: [max_tokens]
      verbose: true
"""
# The walkthrough's spelling.
WALKTHROUGH = """
services:
  nemotron:
    type: api
    url: {url}/chat/completions
    protocol: chat_completions
    model: nvidia/nemotron-3-super-120b-a12b
    api_key: ${{NVIDIA_API_KEY}}
    interceptors:
      - name: turn_counter
        config:
          max_turns: 100
      - name: drop_params
        config: {{params: [max_tokens]}}
    proxy_verbose: true
"""
KEY = "sk-readme-example-42"


@pytest.mark.parametrize("text", [README, WALKTHROUGH])
def test_the_proxy_examples_work(tmp_path, text):
    with ScriptedServer("hi", api_key=KEY) as server:
        config = tmp_path / "config.yaml"
        config.write_text(text.format(url=server.url))
        environment = {**os.environ, "NVIDIA_API_KEY": KEY}
        command = [*NEL, "proxy", str(config), "--service", "nemotron", "--port", "0", "--json"]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            said = json.loads(process.stdout.readline())
            body = json.dumps(
                {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}
            ).encode()
            headers = {
                "Authorization": f"Bearer {said['token']}",
                "Content-Type": "application/json",
            }
            request = urllib.request.Request(f"{said['url']}/chat/completions", body, headers)
            with urllib.request.urlopen(request, timeout=10) as response:
                answer = json.load(response)
            process.send_signal(signal.SIGTERM)
            out, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    assert answer["choices"][0]["message"]["content"] == "hi"
    assert server.requests[0].body == {
        "messages": [{"role": "user", "content": "hello"}],
        "model": "nvidia/nemotron-3-super-120b-a12b",
    }
    assert "turn 1/100" in log
    assert "200 /chat/completions" in log
    assert KEY not in log + out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--service", "nemotrn"], "did you mean 'nemotron'"),
        (["--host", "0.0.0.0"], "does not listen on every network"),
        (
            ["-O", "services.nemotron.proxy.interceptors.0.config.max_turn=3"],
            "no setting 'max_turn'",
        ),
    ],
)
def test_mistakes_are_told(tmp_path, options, words):
    config = tmp_path / "config.yaml"
    config.write_text(README.format(url="http://127.0.0.1:9/v1"))
    done = subprocess.run(
        [*NEL, "proxy", str(config), "--port", "0", *options],
        env={**os.environ, "NVIDIA_API_KEY": KEY},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_cache_commands(tmp_path):
    async def fill() -> None:
        store = AnswerStore(tmp_path)
        for number in range(30):
            await store.put(str(number), {"n": number, "text": os.urandom(500).hex()}, model="m")
        await store.close()

    def nel(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*NEL, "cache", *arguments, "--dir", str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=30)

    asyncio.run(fill())
    assert json.loads(nel("stats", "--json").stdout)["models"] == {"m": 30}
    assert "30 answers" in nel("stats").stdout
    assert nel("prune").returncode == 1
    assert nel("prune", "--older-than", "1q").returncode == 1
    assert nel("prune", "--older-than", "1d", "--max-size", "5k").stdout != "removed 0 answers\n"
    left = json.loads(nel("stats", "--json").stdout)["entries"]
    assert 0 < left < 30
    assert json.loads(nel("clear", "--yes", "--json").stdout) == {"removed": left}
    assert json.loads(nel("stats", "--json").stdout)["entries"] == 0
