"""What a docker sandbox is made of, in the engine's own words."""

from collections.abc import Mapping
from typing import Any, Final

from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Limits, keepalive
from nemo_evaluator.sandbox.base import volumes_of

# What a package manager needs to work as root inside; none of these reaches past the container.
_CAPABILITIES: Final = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"]
# No core dumps, and as many open files as an engine without privileges can still hand out.
_ULIMITS: Final = {"core": 0, "nofile": 16_384}


def definition(spec: SandboxSpec, limits: Limits, env: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    """The body of the request that creates the container."""
    # One file cannot pass the disk limit before anybody looks.
    ulimits = {**_ULIMITS, "fsize": min(8 * 2**30, limits.disk)}
    host: dict[str, Any] = {
        "NetworkMode": "none" if limits.network == "model-only" else limits.network,
        "Memory": limits.memory,
        "MemorySwap": limits.memory,
        "NanoCpus": int(limits.cpus * 1e9),
        "PidsLimit": limits.pids + 8,
        "CapDrop": ["ALL"],
        "CapAdd": _CAPABILITIES,
        "SecurityOpt": ["no-new-privileges"],
        "Init": spec.entrypoint is not None,
        "ReadonlyRootfs": limits.read_only or limits.shared,
        "Ulimits": [{"Name": name, "Soft": limit, "Hard": limit} for name, limit in ulimits.items()],
        "Binds": [
            f"{one.host_path}:{one.container_path}{':ro' if one.readonly else ''}"
            for one in volumes_of(spec)
            if one.host_path
        ],
        "Mounts": [{"Type": "volume", "Target": one.container_path} for one in volumes_of(spec) if not one.host_path],
    }
    if limits.read_only or limits.shared:
        size = max(64 * 2**20, limits.memory // 4)
        folders = ["/tmp"] if limits.shared else ["/tmp", spec.workdir]
        host["Tmpfs"] = dict.fromkeys(folders, f"size={size},mode=1777,exec")
    if limits.runtime is not None:
        host["Runtime"] = limits.runtime
    if limits.network == "bridge":
        host["ExtraHosts"] = ["host.docker.internal:host-gateway"]
    return {
        "Image": spec.image,
        "Entrypoint": ["/bin/sh", "-c"],
        "Cmd": [keepalive(spec)],
        "WorkingDir": spec.workdir,
        "Env": [f"{name}={value}" for name, value in {**env, "NEL_EXEC": "main"}.items()],
        "Labels": dict(labels),
        "HostConfig": host,
    }
