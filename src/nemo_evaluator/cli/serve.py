"""``nel serve``: serve a benchmark over HTTP."""

import json
import os
import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import uvloop

from nemo_evaluator.adapters.guard import FROM_CONTAINERS, LOOPBACK
from nemo_evaluator.adapters.http_server import HttpServer, check_host, ended
from nemo_evaluator.cli._options import option
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.environments.schemes.gym import TOKEN
from nemo_evaluator.environments.serving import ServedBenchmark, export_rows
from nemo_evaluator.solvers.base import SANDBOX

_LOOPBACK = ("127.", "::1")


@dataclass(frozen=True, slots=True)
class _ServeFlags:
    """The options of ``nel serve``, by the names that click gives them; their help texts describe them."""

    benchmark: str
    host: str
    port: int
    gym_compat: bool
    no_token: bool
    allowed: tuple[str, ...]
    export_data: Path | None
    as_json: bool

    @property
    def host_names(self) -> frozenset[str]:
        """The names of this machine that a request may have as its host."""
        names = {name.lower() for name in self.allowed}
        if self.no_token:
            return LOOPBACK | names
        return LOOPBACK | FROM_CONTAINERS | names


@click.command()
@option(
    "--benchmark", "-b", required=True, help="Benchmark to serve: a name, file.py[:name] or a URI."
)
@option("--host", default="127.0.0.1", help="Address to listen on: loopback or a bridge address.")
@option("--port", "-p", default=9090, help="Port to listen on; 0: any free port.")
@option(
    "--gym-compat", is_flag=True, help="Report the protocol as `gym` (both are always understood)."
)
@option("--no-token", is_flag=True, help="Require no token, for NeMo Gym's agents; loopback only.")
@option(
    "--allow-host",
    "allowed",
    multiple=True,
    metavar="NAME",
    help="Also accept requests to this host name; repeatable.",
)
@option(
    "--export-data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the problems as Gym rows to this file and exit.",
)
@option("--json", "as_json", is_flag=True, help="Print URL and token as one line of JSON.")
def serve(**flags: Any) -> None:
    """Serve the problems and the scorer of a benchmark over HTTP, for gym:// and NeMo Gym.

    Clients send the printed token as `Authorization: Bearer TOKEN`; set NEL_SERVE_TOKEN to choose it yourself. Requests
    must name this machine as their host (localhost, or --host), and pages of other origins are refused.
    """
    options = _ServeFlags(**flags)
    check_host(options.host)
    if options.no_token and not options.host.startswith(_LOOPBACK):
        raise UsageError(
            "--no-token is for loopback alone", hint="leave it out, or use --host 127.0.0.1"
        )
    uvloop.run(_run(options))


async def _run(options: _ServeFlags) -> None:
    """Serve a benchmark until the process is asked to end, or export its problems."""
    async with AsyncExitStack() as stack:
        environment = get_environment(options.benchmark)
        stack.push_async_callback(environment.close)
        if environment.facts().batch:
            raise UsageError(
                f"{options.benchmark} runs itself: it has no problems to serve",
                hint="nel eval run runs it",
            )
        size = await environment.dataset_size()
        await environment.prepare()
        if options.export_data is not None:
            exported_file = await export_rows(environment, size, options.export_data)
            click.echo(f"{size} rows in {exported_file}")
            return
        sandboxes = None
        if SANDBOX in environment.facts().needs:
            from nemo_evaluator.sandbox.manager import SandboxManager  # noqa: PLC0415 - few benchmarks need it

            sandboxes = SandboxManager(None, "serve")
            stack.push_async_callback(sandboxes.close)
            await sandboxes.prepare(environment)
        token = None
        if not options.no_token:
            token = Secret(os.environ.get(TOKEN) or secrets.token_urlsafe(24))
        app = ServedBenchmark(
            environment,
            size,
            token=token,
            protocol="gym" if options.gym_compat else "evaluator",
            sandboxes=sandboxes,
        )
        server = HttpServer(app, options.host, options.port, names=options.host_names)
        asked_to_end = ended()
        await server.start()
        stack.push_async_callback(server.stop)
        if options.as_json:
            document = {
                "benchmark": environment.name,
                "size": size,
                "url": server.root,
                "token": token.reveal() if token else None,
            }
            click.echo(json.dumps(document))
        else:
            _announce(environment.name, size, server.root, token=token)
        await asked_to_end.wait()


def _announce(name: str, size: int, url: str, *, token: Secret | None) -> None:
    """Print where the benchmark is served; a token that the user chose is not repeated."""
    click.echo(f"{name}: {size} problems at {url}")
    if token is not None:
        if os.environ.get(TOKEN):
            click.echo(f"token  as in {TOKEN}")
        else:
            click.echo(f"token  {token.reveal()}")
    click.echo("stop with Ctrl-C")
