"""The network of one container that may reach the internet: it is alone in it, and reaches nothing but the internet.

Each container has a bridge of its own, so that the agents of two tasks never meet. Docker can create about thirty
networks where it chooses their addresses; ours are small and use 198.18.0.0/15, which is reserved for measurements, so
that 16,384 are possible. Rules in the container's own network space refuse addresses of the host, of other
networks at its site, and of clouds' metadata services. Code inside has no right to change them, and they are gone with
the container.
"""

import asyncio
import ipaddress
import logging
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.lazy import Lazy
from nemo_evaluator.sandbox._docker_api import DockerApi

log = logging.getLogger(__name__)
psutil: Final[Any] = Lazy("psutil")

POOL: Final = ipaddress.IPv4Network("198.18.0.0/15")
_PREFIX: Final = 29
#: Networks that fit into the pool.
ROOM: Final = 2 ** (_PREFIX - POOL.prefixlen)
_TRIES: Final = 50
_TAKEN: Final = "overlap"
_IN_USE: Final = (403, 409, 500)
_REMOVALS: Final = 25
_REMOVAL_PAUSE: Final = 0.2
# Refused whatever a config allows: link-local addresses, and further ones of clouds' metadata services.
_NEVER: Final = (
    "0.0.0.0/8",
    "169.254.0.0/16",
    "168.63.129.16/32",
    "192.0.0.0/24",
    str(POOL),
    "240.0.0.0/4",
)
_PRIVATE: Final = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
_RESOLVERS: Final = ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
_DNS: Final = 53
_TIMEOUT: Final = 30.0
_warned: set[str] = set()


async def create_network(api: DockerApi, name: str, labels: Mapping[str, str]) -> None:
    """Create a network for one container, with addresses that no other network has. Raises SandboxError."""
    for attempt in range(_TRIES):
        subnet = subnet_of(secrets.randbelow(ROOM))
        body = {
            "Name": name,
            "Driver": "bridge",
            "CheckDuplicate": True,
            "Labels": dict(labels),
            "IPAM": {"Config": [{"Subnet": str(subnet)}]},
        }
        try:
            await api.call("POST", "/networks/create", body=body)
            return
        except SandboxError as error:
            if _TAKEN not in error.message.lower() or attempt == _TRIES - 1:
                raise


def subnet_of(number: int) -> ipaddress.IPv4Network:
    """The network of the pool with a number."""
    size = 2 ** (32 - _PREFIX)
    return ipaddress.IPv4Network((int(POOL.network_address) + number * size, _PREFIX))


async def remove_network(api: DockerApi, name: str) -> None:
    """Remove a network if it exists; retried while its container is still being removed."""
    for attempt in range(_REMOVALS):
        try:
            await api.call("DELETE", f"/networks/{name}", ok=(404,))
            return
        except SandboxError as error:
            if error.status not in _IN_USE or attempt == _REMOVALS - 1:
                raise
        await asyncio.sleep(_REMOVAL_PAUSE)


def can_guard(api: DockerApi, runtime: str | None) -> bool:
    """Whether nel can set rules for containers of this engine; if not, logs the reason once."""
    reason = None
    if not api.socket:
        reason = "the engine is on another machine"
    elif os.geteuid() != 0:
        reason = "nel does not run as root beside the engine"
    elif runtime == "runsc":
        reason = "gVisor has a network stack of its own"
    elif shutil.which("nsenter") is None or shutil.which("iptables-restore") is None:
        reason = "nsenter or iptables-restore is not installed"
    if reason is not None and reason not in _warned:
        _warned.add(reason)
        log.warning(
            "containers with network bridge can reach this machine and metadata addresses: %s",
            reason,
        )
    return reason is None


def guard(pid: int, address: str, allowed: Sequence[str] | None) -> None:
    """Block every network but the internet for a running container.

    Args:
        pid: The container's first process.
        address: The container's own address, by which its network space is recognized.
        allowed: Private networks that may be reached.

    Raises:
        SandboxError: The rules could not be set.
    """
    network_namespace = Path(f"/proc/{pid}/ns/net")
    routes = Path(f"/proc/{pid}/net/fib_trie")
    if not address or not routes.exists() or address not in routes.read_text():
        hint = "run nel on the machine of the engine, not in a container beside it; or use network: none"
        raise SandboxError("cannot find the network of a container in order to guard it", hint=hint)
    _restore(network_namespace, "iptables-restore", rules(allowed or ()))
    if shutil.which("ip6tables-restore") is not None and Path("/proc/net/if_inet6").exists():
        _restore(network_namespace, "ip6tables-restore", _rules_of_6())


def rules(allowed: Sequence[str] = ()) -> str:
    """The rules for IPv4, as iptables-restore reads them."""
    lines = ["*filter"]
    lines += [
        "-A OUTPUT -o lo -j ACCEPT",
        "-A OUTPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
    ]
    for resolver in _resolvers():
        for protocol in ("udp", "tcp"):
            lines.append(f"-A OUTPUT -d {resolver} -p {protocol} --dport {_DNS} -j ACCEPT")
    lines += [f"-A OUTPUT -d {network} -j REJECT" for network in _NEVER]
    lines += [f"-A OUTPUT -d {address} -j REJECT" for address in _own_addresses()]
    lines += [f"-A OUTPUT -d {ipaddress.IPv4Network(network)} -j ACCEPT" for network in allowed]
    lines += [f"-A OUTPUT -d {network} -j REJECT" for network in _PRIVATE]
    return "\n".join([*lines, "COMMIT", ""])


def _rules_of_6() -> str:
    """Return the rules for IPv6: the network has none, but the host's end answers under a link-local address."""
    return "\n".join(["*filter", "-A OUTPUT -o lo -j ACCEPT", "-A OUTPUT -j REJECT", "COMMIT", ""])


def _restore(space: Path, command: str, text: str) -> None:
    """Load rules into a network namespace. Raises SandboxError when that fails."""
    argv = ["nsenter", f"--net={space}", command, "--noflush"]
    try:
        completed = subprocess.run(
            argv, input=text, capture_output=True, text=True, timeout=_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"cannot guard the network of a container: {error}") from error
    if completed.returncode != 0:
        hint = "does iptables work on this machine? without it, use network: none"
        raise SandboxError(
            f"cannot guard the network of a container: {completed.stderr.strip()[-300:]}", hint=hint
        )


def _resolvers() -> list[str]:
    """Name servers that are not on this machine: the engine queries them from the container's own network."""
    resolvers: dict[str, None] = {}
    for name in _RESOLVERS:
        path = Path(name)
        if not path.is_file():
            continue
        for line in path.read_text().splitlines():
            fields = line.split()
            if len(fields) > 1 and fields[0] == "nameserver" and _is_remote(fields[1]):
                resolvers[fields[1]] = None
    return list(resolvers)


def _is_remote(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.version == 4 and not address.is_loopback


def _own_addresses() -> list[str]:
    """Addresses of this machine, public ones included."""
    own_addresses: dict[str, None] = {}
    for addresses in psutil.net_if_addrs().values():
        for entry in addresses:
            if entry.family == socket.AF_INET and not entry.address.startswith("127."):
                own_addresses[entry.address] = None
    return list(own_addresses)
