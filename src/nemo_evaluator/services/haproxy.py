"""HAProxy in front of the servers of a service: its config file and its launch plan."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.shell import is_host_name
from nemo_evaluator.core.values import replace
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services._model_server import filled

_HEALTH_PATH: Final = re.compile(r"/[A-Za-z0-9_.~!&()*+,;=:@%/?-]*")


def haproxy_config(servers: Sequence[Launch], port: int) -> str:
    """The config file of HAProxy, which prefers the server with the fewest connections and skips unhealthy ones.

    Args:
        servers: The launch plans of the servers.
        port: The port of HAProxy.

    Raises:
        UsageError: A health path or an address would be more than one word in the file.
    """
    health = servers[0].health_paths[0]
    if _HEALTH_PATH.fullmatch(health) is None:
        raise UsageError(
            f"HAProxy cannot request the health path {health!r}",
            hint="write a path without spaces, quotes, backslashes and #",
        )
    lines = filled("haproxy.cfg", port=int(port), health=health)
    for number, server in enumerate(servers):
        if not is_host_name(server.host):
            raise UsageError(f"{server.host!r} is not the address of a server")
        lines.append(
            f"    server server-{number} {server.host}:{server.port} check inter 1s fall 2 rise 1"
        )
    return "\n".join(lines) + "\n"


def haproxy_launch(servers: Sequence[Launch], port: int, file: Path) -> Launch:
    """The launch plan of HAProxy, which runs on this machine.

    Args:
        servers: The launch plans of the servers behind it.
        port: Its port.
        file: Its config file.

    Raises:
        UsageError: HAProxy is not installed.
    """
    if shutil.which("haproxy") is None:
        raise UsageError(
            "haproxy is not on PATH",
            hint="install it, or leave out balancer: nel then balances itself",
        )
    argv = ["haproxy", "-db", "-f", str(file)]
    return replace(
        servers[0],
        argv=argv,
        host="127.0.0.1",
        port=port,
        env={},
        image=None,
        mounts=(),
        gpus=0,
        nodes=1,
        pools=(),
    )
