"""``nel proxy``: the interceptor proxy of one service, alone."""

import json
import os
import tempfile
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import uvloop

from nemo_evaluator.adapters import Proxy, TrafficLog
from nemo_evaluator.adapters.http_server import check_host, ended
from nemo_evaluator.adapters.proxy import check_session
from nemo_evaluator.cli._options import config_files, load_whole, option
from nemo_evaluator.config import EvalConfig, LoadedConfig, compose_config, load_mapping
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.secrets import Secret, scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models import CallScope, endpoint_of
from nemo_evaluator.services import start_services

TOKEN = "NEL_PROXY_TOKEN"


@click.command()
@click.argument(
    "file",
    metavar="CONFIG",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    shell_complete=config_files,
)
@option("-s", "--service", "name", help="Service to put behind the proxy [default: the only one].")
@option("--host", default="127.0.0.1", help="Address to listen on: loopback or a bridge address.")
@option("-p", "--port", default=4000, help="Port to listen on; 0: any free port.")
@option(
    "--session",
    "sessions",
    multiple=True,
    metavar="NAME",
    help="Open a session with its own URL and key; repeatable.",
)
@option(
    "-O",
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a config value; repeatable.",
)
@option(
    "--traffic",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Log every call to this file.",
)
@option("--json", "as_json", is_flag=True, help="Print URL and token as one line of JSON.")
def proxy(file: Path, overrides: tuple[str, ...], name: str | None, host: str, **wish: Any) -> None:
    """Put the interceptors of a service behind HTTP, for any OpenAI or Anthropic client.

    Clients use the printed token as their API key; set NEL_PROXY_TOKEN to choose it yourself. Each --session has its
    own URL, key and turn count, and its key opens no other session. CONFIG may be a complete config or contain
    services only.
    """
    check_host(host)
    for session in wish["sessions"]:
        check_session(session)
    config = _load(file, overrides)
    uvloop.run(_serve(config, _choose(config, name), file.resolve().parent, host=host, **wish))


def _load(file: Path, overrides: tuple[str, ...]) -> EvalConfig:
    """Load a config, which may contain services only."""
    if "benchmarks" in compose_config(file):
        loaded: LoadedConfig = load_whole(file, overrides, file_only=True)
        return loaded.config
    # Services alone are enough here, but the schema needs a benchmark: this one sends no requests.
    placeholder = {"name": "quickstart", "solver": {"type": "oracle"}}
    return load_mapping({**compose_config(file), "benchmarks": [placeholder]}, overrides).config


def _choose(config: EvalConfig, name: str | None) -> str:
    """Return the name of the service to use: the given one, or the only one."""
    names = list(config.services)
    if name is None and len(names) != 1:
        raise UsageError("which service?", hint=f"--service one of: {', '.join(names)}")
    name = name or names[0]
    if name not in names:
        raise UsageError(f"the config has no service {name!r}", hint=did_you_mean(name, names))
    return name


async def _serve(
    config: EvalConfig,
    name: str,
    base_dir: Path,
    *,
    host: str,
    port: int,
    sessions: tuple[str, ...],
    traffic: Path | None,
    as_json: bool,
) -> None:
    """Start the service and its proxy, and serve until the process is asked to end."""
    asked_to_end = ended()
    token = os.environ.get(TOKEN)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nel-proxy-"))
        running_service = (
            await stack.enter_async_context(start_services(config.only([name]), Path(folder)))
        )[name]
        service: Any = config.services[name]
        endpoint = running_service.reach(
            endpoint_of(name, service, url=running_service.url, base_dir=base_dir)
        )
        scope = CallScope()
        if traffic is not None:
            log = TrafficLog(traffic)
            stack.callback(log.close)
            scope = CallScope(traffic=log.write)
        if token:
            key: Secret | None = Secret(token)
        else:
            key = None
        server = Proxy(
            endpoint, host=host, port=port, token=key, scope=scope, sessions_only=bool(sessions)
        )
        await stack.enter_async_context(server)
        _announce(
            server,
            name,
            {
                session_name: server.session(replace(scope, session=session_name))
                for session_name in sessions
            },
            as_json=as_json,
        )
        await asked_to_end.wait()


def _announce(server: Proxy, service: str, sessions: dict[str, str], as_json: bool) -> None:
    """Print the URL and key of the proxy, or those of its sessions."""
    connection: JsonDict = {"service": service, "url": server.url, "token": server.token.reveal()}
    opened_sessions: dict[str, dict[str, str]] = {}
    for name, url in sessions.items():
        opened_sessions[name] = {"url": url, "key": server.key_of(name).reveal()}
    if as_json:
        click.echo(
            json.dumps(
                connection | {"sessions": opened_sessions} if opened_sessions else connection
            )
        )
        return
    click.echo(
        f"service   {service} ({server.pipeline.endpoint.model} at {scrub(server.pipeline.endpoint.url)})"
    )
    for name, session in opened_sessions.items():
        click.echo(f"session   {name}: base URL {session['url']}, API key {session['key']}")
    if not opened_sessions:
        click.echo(f"base URL  {server.url}   (Anthropic clients: {server.root})")
        click.echo(
            f"API key   {f'as in {TOKEN}' if os.environ.get(TOKEN) else connection['token']}"
        )
    click.echo("stop with Ctrl-C")
