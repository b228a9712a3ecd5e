"""``nel view``: view runs in a browser."""

import os
import secrets
import shlex
import sys
import webbrowser
from pathlib import Path

import click
import uvloop

from nemo_evaluator.adapters.guard import LOOPBACK
from nemo_evaluator.adapters.http_server import HttpServer, ended
from nemo_evaluator.cli._options import PATH, option
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.wording import counted
from nemo_evaluator.store.legacy import convert_legacy
from nemo_evaluator.view.library import Library
from nemo_evaluator.view.server import Viewer
from nemo_evaluator.view.static_export import export_file, export_runs

_PORT = 7117
_HOST = "127.0.0.1"
_DEFAULT_FOLDER = Path("eval_results")


@click.command("view")
@click.argument("paths", nargs=-1, type=PATH)
@option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Port to listen on [default: {_PORT}, or a free port if that is taken].",
)
@option("--no-open", is_flag=True, help="Print the URL; open no browser.")
@option(
    "--export",
    metavar="DIR|FILE.html",
    type=PATH,
    help="Write static pages to DIR, or small runs to one HTML file; start no server.",
)
def view(paths: tuple[Path, ...], port: int | None, no_open: bool, export: Path | None) -> None:
    """View runs in a browser: summaries, rows, comparisons, labels; also while they run.

    PATH is the folder of a run, or a folder of several runs (default: your registered runs and ./eval_results). The
    server listens on this machine only; from elsewhere, forward its port: ssh -L 7117:127.0.0.1:7117 HOST.
    """
    for path in paths:
        if not path.exists():
            raise UsageError(
                f"{path} does not exist", hint="`nel eval runs` lists runs and their folders"
            )
        convert_legacy(path)
    folders = paths
    if not paths and _DEFAULT_FOLDER.is_dir():
        folders = (_DEFAULT_FOLDER,)
    library = Library(folders, registry=not paths)
    if not library.look():
        raise UsageError(
            "no run was found", hint="give the output folder of a run; `nel eval runs` lists runs"
        )
    if export is None:
        uvloop.run(_serve(library, port, opens=_has_desktop() and not no_open))
    elif export.suffix == ".html":
        run_count = counted(export_file(library, export), "run")
        click.echo(f"{run_count} written to {export}; a browser opens it")
    else:
        run_count = counted(export_runs(library, export), "run")
        server_command = ["python3", "-m", "http.server", "--bind", _HOST, "--directory"]
        click.echo(f"{run_count} written to {export}; to look at it:")
        click.echo(f"  {shlex.join([*server_command, str(export)])}")


def _has_desktop() -> bool:
    """Return whether this machine can open a browser."""
    if sys.platform == "darwin":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


async def _serve(library: Library, port: int | None, *, opens: bool) -> None:
    """Serve the viewer until the process is asked to end; the URL contains a secret token."""
    token = secrets.token_urlsafe(18)
    server = HttpServer(
        Viewer(library).app(token), _HOST, _PORT if port is None else port, names=LOOPBACK
    )
    try:
        await server.start()
    except UsageError:
        if port is not None:
            raise
        server = HttpServer(Viewer(library).app(token), _HOST, 0, names=LOOPBACK)
        await server.start()
    runs = library.look()
    if len(runs) == 1:
        fragment = f"#/run/{next(iter(runs))}"
    else:
        fragment = ""
    url = f"{server.root}/{token}/{fragment}"
    click.echo(f"{url}\nstop with Ctrl-C")
    sys.stdout.flush()
    if opens:
        webbrowser.open(url)
    await ended().wait()
    await server.stop()
