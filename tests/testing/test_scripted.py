"""The scripted server: rules, weather, counting, threads and the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter

import aiohttp
import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.testing import Rule, Say, ScriptedServer, Weather
from nemo_evaluator.testing.script import load_script


def _post(url, body, headers=None):
    request = urllib.request.Request(url, json.dumps(body).encode(), headers or {})
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def _ask(server, prompt, **fields):
    body = {"model": "m", "messages": [{"role": "user", "content": prompt}], **fields}
    status, answer = _post(f"{server.url}/chat/completions", body)
    return answer["choices"][0]["message"]["content"] if status == 200 else status


def test_rules_by_substring_regex_index_and_times():
    rules = [
        Rule("first", index=0),
        Rule("apple", contains="fruit"),
        Rule({"status": 503}, regex=r"^\d+$", times=1),
        Rule("number", regex=r"^\d+$"),
    ]
    with ScriptedServer(rules) as server:
        asked = [_ask(server, prompt) for prompt in ("x", "a fruit", "12", "13", "other")]
    assert asked == ["first", "apple", 503, "number", 400]


def test_lists_answers_and_callables():
    with ScriptedServer(["a", Say("b")]) as server:
        assert [_ask(server, "q") for _ in range(3)] == ["a", "b", "b"]
    with ScriptedServer("dunno", answers={"2+2": "4"}) as server:
        assert [_ask(server, "2+2"), _ask(server, "3+3")] == ["4", "dunno"]
    with ScriptedServer(lambda seen: seen.prompt.upper()) as server:
        assert _ask(server, "shout") == "SHOUT"


def test_requests_are_counted_by_body():
    with ScriptedServer("ok") as server:
        for prompt in ("one", "two", "one"):
            _ask(server, prompt)
        assert server.count == 3
        assert sorted(server.counts.values()) == [1, 2]
        assert list(server.duplicates.values()) == [2]
        assert [seen.prompt for seen in server.requests] == ["one", "two", "one"]


def test_weather_is_the_same_for_the_same_seed():
    def season(seed):
        weather = Weather(p500=0.3, preset=0.2, pstall=0.1, seed=seed)
        return [
            str(say and (say.fault or say.status))
            for say in (weather.strike(0.0) for _ in range(300))
        ]

    assert season(1) == season(1) != season(2)
    shares = Counter(season(1))
    assert 60 < shares["500"] < 120
    assert 35 < shares["reset"] < 85


def test_the_rate_limit_lets_a_second_worth_through():
    weather = Weather(rate_limit=10)
    assert sum(weather.strike(5.0) is None for _ in range(50)) == 10
    assert sum(weather.strike(5.5) is None for _ in range(50)) == 5


def test_keys_models_and_paths():
    with ScriptedServer("ok", api_key="right", models=["m"]) as server:
        url = f"{server.url}/chat/completions"
        assert _post(url, {"model": "m"}, {"Authorization": "Bearer wrong"})[0] == 401
        assert _post(url, {"model": "x"}, {"Authorization": "Bearer right"})[0] == 404
        assert _post(url, {"model": "m"}, {"x-api-key": "right"})[0] == 200
        assert _post(f"{server.url}/nowhere", {}, {"Authorization": "Bearer right"})[0] == 404


async def test_a_stream_spells_the_answer():
    async with ScriptedServer(Say("one two three")) as server, aiohttp.ClientSession() as session:
        body = {"model": "m", "stream": True, "messages": []}
        async with session.post(f"{server.url}/chat/completions", json=body) as response:
            text = await response.text()
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in events) == "one two three"
    assert text.endswith("data: [DONE]\n\n")


def test_a_script_file(tmp_path):
    path = tmp_path / "script.yaml"
    path.write_text(
        "- {contains: fruit, say: apple}\n- {say: {text: other, finish_reason: length}}\n"
    )
    with ScriptedServer(load_script(path)) as server:
        assert [_ask(server, "fruit?"), _ask(server, "tree?")] == ["apple", "other"]
    with pytest.raises(UsageError, match="unknown field 'txt'"):
        Say.of({"txt": "x"})


def test_the_command_line():
    command = [
        sys.executable,
        "-m",
        "nemo_evaluator.testing.server",
        "--answer",
        "hi",
        "--record",
        "9",
        "--until-eof",
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        said = json.loads(process.stdout.readline())
        assert _post(f"{said['url']}/completions", {"prompt": "x"})[1]["choices"][0]["text"] == "hi"
        with urllib.request.urlopen(said["stats"], timeout=5) as response:
            assert json.load(response)["requests"] == 1
        process.stdin.close()
        assert process.wait(10) == 0
