"""``nel proxy``: the interceptor proxy of one service, alone."""

import json
import os
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class _ProxyFlags:
    """The options of ``nel proxy`` that concern the server, by the names that click gives them."""

    host: str
    port: int
    sessions: tuple[str, ...]
    traffic: Path | None
    as_json: bool


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
def proxy(file: Path, overrides: tuple[str, ...], name: str | None, **flags: Any) -> None:
    """Put the interceptors of a service behind HTTP, for any OpenAI or Anthropic client.

    Clients use the printed token as their API key; set NEL_PROXY_TOKEN to choose it yourself. Each --session has its
    own URL, key and turn count, and its key opens no other session. CONFIG may be a complete config or contain
    services only.
    """
    options = _ProxyFlags(**flags)
    check_host(options.host)
    for session in options.sessions:
        check_session(session)
    config = _load(file, overrides)
    service_name = _choose(config, name)
    uvloop.run(_serve(config, service_name, file.resolve().parent, options))


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


async def _serve(config: EvalConfig, name: str, base_dir: Path, options: _ProxyFlags) -> None:
    """Start the service and its proxy, and serve until the process is asked to end."""
    asked_to_end = ended()
    token = os.environ.get(TOKEN)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nel-proxy-"))
        running_services = await stack.enter_async_context(
            start_services(config.only([name]), Path(folder))
        )
        running_service = running_services[name]
        service: Any = config.services[name]
        endpoint = running_service.reach(
            endpoint_of(name, service, url=running_service.url, base_dir=base_dir)
        )
        scope = CallScope()
        if options.traffic is not None:
            log = TrafficLog(options.traffic)
            stack.callback(log.close)
            scope = CallScope(traffic=log.write)
        server = Proxy(
            endpoint,
            host=options.host,
            port=options.port,
            token=Secret(token) if token else None,
            scope=scope,
            sessions_only=bool(options.sessions),
        )
        await stack.enter_async_context(server)
        url_of_session: dict[str, str] = {}
        for session in options.sessions:
            url_of_session[session] = server.session(replace(scope, session=session))
        _announce(server, name, url_of_session, as_json=options.as_json)
        await asked_to_end.wait()


def _announce(server: Proxy, service: str, sessions: dict[str, str], as_json: bool) -> None:
    """Print the URL and key of the proxy, or those of its sessions.

    Args:
        server: The proxy.
        service: The name of the service behind it.
        sessions: The URL of each session.
        as_json: Print JSON.
    """
    opened_sessions: dict[str, dict[str, str]] = {}
    for name, url in sessions.items():
        opened_sessions[name] = {"url": url, "key": server.key_of(name).reveal()}
    if as_json:
        document: JsonDict = {
            "service": service,
            "url": server.url,
            "token": server.token.reveal(),
        }
        if opened_sessions:
            document["sessions"] = opened_sessions
        click.echo(json.dumps(document))
        return
    endpoint = server.pipeline.endpoint
    click.echo(f"service   {service} ({endpoint.model} at {scrub(endpoint.url)})")
    for name, session in opened_sessions.items():
        click.echo(f"session   {name}: base URL {session['url']}, API key {session['key']}")
    if not opened_sessions:
        key = f"as in {TOKEN}" if os.environ.get(TOKEN) else server.token.reveal()
        click.echo(f"base URL  {server.url}   (Anthropic clients: {server.root})")
        click.echo(f"API key   {key}")
    click.echo("stop with Ctrl-C")
