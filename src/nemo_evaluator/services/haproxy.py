"""HAProxy in front of the replicas of a service, for clients that are not ours. Ours balance by themselves."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.services.base import Launch


def haproxy_config(servers: Sequence[Launch], port: int, bind: str = "127.0.0.1") -> str:
    """The whole file: least connections first, servers that fail their health check are left out."""
    lines = ["defaults", "    mode http", "    maxconn 4096", "    retries 3", "    option redispatch"]
    lines += ["    timeout connect 10s", "    timeout client 1h", "    timeout server 1h"]
    lines += ["frontend nel", f"    bind {bind}:{port}", "    default_backend servers"]
    lines += ["backend servers", "    balance leastconn", f"    option httpchk GET {servers[0].health_paths[0]}"]
    lines += ["    http-check expect status 200"]
    for number, server in enumerate(servers):
        lines.append(f"    server server-{number} {server.host}:{server.port} check inter 1s fall 2 rise 1")
    return "\n".join(lines) + "\n"


def haproxy_launch(servers: Sequence[Launch], port: int, file: Path) -> Launch:
    """The plan of HAProxy itself; ``file`` holds its config."""
    if shutil.which("haproxy") is None:
        raise UsageError("haproxy is not on PATH", hint="install it, or leave out balancer: nel then balances itself")
    argv = ["haproxy", "-db", "-f", str(file)]
    return replace(
        servers[0], argv=argv, host="127.0.0.1", port=port, env={}, image=None, mounts=(), gpus=0, nodes=1, pools=()
    )
