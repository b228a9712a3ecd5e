"""The scripted server from the command line: ``python -m nemo_evaluator.testing.server --answer 42 --delay 0.2``.

The first line on stdout is a JSON object with the server's URL. It runs until SIGTERM or Ctrl-C; with ``--until-eof``,
also until its standard input closes.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import orjson
import uvloop

from nemo_evaluator.testing.script import Say, Script, Weather, load_script
from nemo_evaluator.testing.scripted import ScriptedServer


@click.command(name="scripted-server")
@click.option("--port", default=0, help="0 takes any free port.")
@click.option(
    "--script", "script_file", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--answer", default="ok", help="The answer to every request, without a script.")
@click.option(
    "--answers", "answers_file", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--delay", default=0.0, help="Seconds before each answer.")
@click.option("--jitter", default=0.0, help="Add up to this many seconds at random.")
@click.option("--rate-limit", type=float, help="Requests per second; 429 beyond.")
@click.option(
    "--burst", type=float, help="Requests allowed in a burst; one second's worth by default."
)
@click.option("--retry-after", type=float, help="Retry-After of those 429s, in seconds.")
@click.option("--p500", default=0.0, help="Share of requests that get a 500.")
@click.option("--p429", default=0.0, help="Share of requests that get a 429.")
@click.option("--preset", default=0.0, help="Share of connections that are reset.")
@click.option("--stall", "pstall", default=0.0, help="Share of requests that are never answered.")
@click.option("--seed", default=0, help="Seed of the random delays and faults.")
@click.option("--api-key", envvar="SCRIPTED_API_KEY", help="Refuse other keys with 401.")
@click.option("--model", "models", multiple=True, help="Refuse other models with 404.")
@click.option("--record", default=0, help="Requests to remember (and count by body).")
@click.option("--until-eof", is_flag=True, help="Stop when standard input closes.")
def main(
    script_file: Path | None,
    answer: str,
    answers_file: Path | None,
    delay: float,
    jitter: float,
    **options: Any,
) -> None:
    """Serve a scripted OpenAI-compatible model on loopback."""
    if script_file:
        script: Script = load_script(script_file)
    else:
        script = Say(answer, delay=delay, jitter=jitter)
    answers: Any = None
    if answers_file:
        answers = orjson.loads(answers_file.read_bytes())
    until_eof = options.pop("until_eof")
    weather = _take_weather(options)
    server = ScriptedServer(script, answers=answers, weather=weather, **options)
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_serve(server, until_eof))


def _take_weather(options: dict[str, Any]) -> Weather:
    """Move the options of the faults from the options of the server into a `Weather`."""
    weather_options: dict[str, Any] = {}
    for weather_field in fields(Weather):
        if weather_field.name in options:
            weather_options[weather_field.name] = options.pop(weather_field.name)
    return Weather(**weather_options)


async def _serve(server: ScriptedServer, until_eof: bool) -> None:
    """Run a server until SIGTERM or, with ``until_eof``, until standard input closes."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    async with server:
        print(json.dumps({"url": server.url, "stats": f"{server.root}/stats"}), flush=True)
        if until_eof:
            loop.add_reader(sys.stdin.fileno(), _watch_input, ended)
        await ended.wait()


def _watch_input(ended: asyncio.Event) -> None:
    """Set the event when standard input closes."""
    if not os.read(sys.stdin.fileno(), 4096):
        ended.set()


if __name__ == "__main__":
    main()
