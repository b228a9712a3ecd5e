"""``nel serve``: serve a benchmark over HTTP."""

import json
import os
import secrets
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click
import uvloop

from nemo_evaluator.adapters.guard import FROM_CONTAINERS, LOOPBACK
from nemo_evaluator.adapters.http_server import HttpServer, check_host, ended
from nemo_evaluator.cli._options import option
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.environments.schemes.gym import TOKEN
from nemo_evaluator.environments.serving import ServedBenchmark, export_rows
from nemo_evaluator.solvers.base import SANDBOX

_LOOPBACK = ("127.", "::1")


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
def serve(host: str, no_token: bool, **wish: Any) -> None:
    """Serve the problems and the scorer of a benchmark over HTTP, for gym:// and NeMo Gym.

    Clients send the printed token as `Authorization: Bearer TOKEN`; set NEL_SERVE_TOKEN to choose it yourself. Requests
    must name this machine as their host (localhost, or --host), and pages of other origins are refused.
    """
    check_host(host)
    if no_token and not host.startswith(_LOOPBACK):
        raise UsageError(
            "--no-token is for loopback alone", hint="leave it out, or use --host 127.0.0.1"
        )
    uvloop.run(_run(host=host, no_token=no_token, **wish))


async def _run(
    benchmark: str,
    host: str,
    port: int,
    gym_compat: bool,
    no_token: bool,
    allowed: tuple[str, ...],
    export_data: Path | None,
    as_json: bool,
) -> None:
    """Serve a benchmark until the process is asked to end, or export its problems."""
    async with AsyncExitStack() as stack:
        environment = get_environment(benchmark)
        stack.push_async_callback(environment.close)
        if environment.facts().batch:
            raise UsageError(
                f"{benchmark} runs itself: it has no problems to serve", hint="nel eval run runs it"
            )
        size = await environment.dataset_size()
        await environment.prepare()
        if export_data is not None:
            click.echo(f"{size} rows in {await export_rows(environment, size, export_data)}")
            return
        sandboxes = None
        if SANDBOX in environment.facts().needs:
            from nemo_evaluator.sandbox.manager import SandboxManager  # noqa: PLC0415 - few benchmarks need it

            sandboxes = SandboxManager(None, "serve")
            stack.push_async_callback(sandboxes.close)
            await sandboxes.prepare(environment)
        chosen_token = os.environ.get(TOKEN)
        if no_token:
            token: Secret | None = None
        else:
            token = Secret(chosen_token or secrets.token_urlsafe(24))
        protocol = "gym" if gym_compat else "evaluator"
        app = ServedBenchmark(
            environment, size, token=token, protocol=protocol, sandboxes=sandboxes
        )
        host_names = LOOPBACK if no_token else LOOPBACK | FROM_CONTAINERS
        server = HttpServer(app, host, port, names=host_names | {name.lower() for name in allowed})
        asked_to_end = ended()
        await server.start()
        stack.push_async_callback(server.stop)
        address: JsonDict = {"benchmark": environment.name, "size": size, "url": server.root}
        if as_json:
            click.echo(json.dumps(address | {"token": token.reveal() if token else None}))
        else:
            click.echo(f"{environment.name}: {size} problems at {server.root}")
            if token is not None:
                click.echo(f"token  {f'as in {TOKEN}' if chosen_token else token.reveal()}")
            click.echo("stop with Ctrl-C")
        await asked_to_end.wait()
