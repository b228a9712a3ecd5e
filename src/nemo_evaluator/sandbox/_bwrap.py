"""The parts of the machine that a local sandbox shows: the arguments of bubblewrap."""

import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox.base import volumes_of

BWRAP: Final = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")
PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
# Never the working directory, which is carried to where the work is verified: start-up files in it would run there.
HOME: Final = "/tmp/.home"
_SYSTEM: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# The files of the host's /etc that programs need to start; no accounts, no keys, no configuration of services.
_ETC: Final = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "localtime",
    "mime.types",
    "protocols",
    "services",
    "ssl/certs",
    "python3",
    "python3.11",
    "perl",
    "java-17-openjdk",
    "fonts",
)
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_ENDS: Final = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
_LINKS: Final = {name: f"/proc/self/fd{end}" for name, end in _ENDS.items()}
_ST_NODEV: Final = 4
_SMALLEST: Final = 64 * 2**20
_NOT_WORKDIR: Final = ("/", "/tmp", "/proc", "/dev", "/usr", "/etc")
# Base systems that this machine's own system may replace; a local sandbox cannot provide any other image.
_PLAIN_IMAGES: Final = ("", "python", "debian", "ubuntu", "bash")


def arguments(spec: SandboxSpec, memory: int, network: str, folder: Path) -> list[str]:
    """Build the command line of bubblewrap for a sandbox.

    Args:
        spec: The sandbox that the problem asks for.
        memory: Its memory limit; scratch folders may hold a quarter of it.
        network: ``host``, or anything else for no network.
        folder: The folder of ``prepare``.

    Raises:
        SandboxError: Bubblewrap is missing, or it cannot provide the image or the working directory.
    """
    # Only the system's own; a bubblewrap that a user has put on PATH is ignored.
    bwrap = next((path for path in BWRAP if os.access(path, os.X_OK)), None)
    if bwrap is None:
        raise SandboxError(
            "bubblewrap is not installed", hint="apt-get install bubblewrap (or dnf, apk, pacman)"
        )
    argv = [bwrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    argv += ["--unshare-cgroup-try"]
    if network != "host":
        argv += ["--unshare-net"]
    argv += ["--hostname", "sandbox", "--die-with-parent", "--info-fd", "{info}"]
    argv += _root(spec.image)
    argv += ["--ro-bind", str(folder / "etc"), "/etc"]
    if network == "host":
        argv += ["--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf"]
    argv += _dev(folder)
    argv += ["--proc", "/proc", "--dir", "/run"]
    size = str(max(_SMALLEST, memory // 4))
    argv += ["--perms", "1777", "--size", size, "--tmpfs", "/tmp"]
    argv += ["--perms", "0755", "--dir", HOME]
    workdir = spec.workdir
    if not workdir.startswith("/") or workdir in _NOT_WORKDIR:
        raise SandboxError(f"{workdir!r} cannot be the working directory of a local sandbox")
    argv += ["--size", size, "--tmpfs", workdir]
    for mount in volumes_of(spec):
        if mount.host_path:
            option = "--ro-bind" if mount.readonly else "--bind"
            argv += [option, mount.host_path, mount.container_path]
        else:
            argv += ["--size", size, "--tmpfs", mount.container_path]
    return [*argv, "--remount-ro", "/", "--chdir", "/", "--", "/bin/cat"]


def _root(image: str) -> list[str]:
    """The arguments for the system folders of an image."""
    root = _root_folder(image)
    argv = ["--ro-bind", str(root / "usr"), "/usr"]
    for name in _SYSTEM:
        path = root / name
        if path.is_symlink():
            argv += ["--symlink", str(path.readlink()), f"/{name}"]
        elif path.is_dir():
            argv += ["--ro-bind", str(path), f"/{name}"]
    if root != Path("/"):
        for name in ("opt", "var", "srv"):
            if (root / name).is_dir():
                argv += ["--ro-bind", str(root / name), f"/{name}"]
        return argv
    prefix = Path(sys.base_prefix)
    is_in_usr = str(prefix).startswith("/usr")
    if not Path("/usr/bin/python3").exists() and not is_in_usr and _is_open_to_all(prefix):
        # The interpreter of nel, because the system has none.
        argv += ["--ro-bind", str(prefix), str(prefix)]
    return argv


def _root_folder(image: str) -> Path:
    """The root file system of an image: a folder, or this machine's own. Raises SandboxError for other images."""
    if image.startswith("/"):
        root = Path(image)
        if not (root / "usr").is_dir():
            raise SandboxError(
                f"{image} is not a root file system",
                hint="name a folder that holds usr/, or no image",
            )
        return root
    if image.split(":")[0].rpartition("/")[2] in _PLAIN_IMAGES:
        return Path("/")
    raise SandboxError(
        f"a local sandbox cannot run the image {image!r}",
        hint="use a docker sandbox, or give the path of an unpacked root file system as image",
    )


def _is_open_to_all(folder: Path) -> bool:
    """Whether every user may enter a folder."""
    return all(part.stat().st_mode & stat.S_IXOTH for part in (folder, *folder.parents))


def prepare(folder: Path, uid: int) -> None:
    """Write the /etc and, as root, the /dev of all sandboxes: one mount each instead of twenty.

    Args:
        folder: Where to write them.
        uid: The user id of the commands.
    """
    etc = folder / "etc"
    etc.mkdir()
    for name in _ETC:
        _copy_if_exists(Path("/etc") / name, etc / name)
    accounts = f"root:x:0:0:root:/root:/usr/sbin/nologin\nsandbox:x:{uid}:{uid}::{HOME}:/bin/sh\n"
    (etc / "passwd").write_text(accounts)
    (etc / "group").write_text(f"root:x:0:\nsandbox:x:{uid}:\n")
    (etc / "hosts").write_text("127.0.0.1 localhost sandbox\n::1 localhost\n")
    may_hold_devices = not os.statvfs(folder).f_flag & _ST_NODEV
    if os.getuid() == 0 and may_hold_devices:
        _make_devices(folder / "dev")
    etc.chmod(0o755)


def _copy_if_exists(source: Path, target: Path) -> None:
    if not source.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore_dangling_symlinks=True)
    else:
        shutil.copy(source, target)


def _make_devices(dev: Path) -> None:
    (dev / "shm").mkdir(parents=True)
    for name in _DEVICES:
        source = Path("/dev", name)
        if source.exists():
            os.mknod(dev / name, stat.S_IFCHR | 0o666, source.stat().st_rdev)
            (dev / name).chmod(0o666)
    for name, target in _LINKS.items():
        (dev / name).symlink_to(target)
    dev.chmod(0o755)


def _dev(folder: Path) -> list[str]:
    """The arguments for /dev."""
    shm = ["--perms", "1777", "--size", str(_SMALLEST), "--tmpfs", "/dev/shm"]
    if (folder / "dev").is_dir():
        # Nobody inside can change the folder: it belongs to root, and nobody inside is root.
        return ["--dev-bind", str(folder / "dev"), "/dev", *shm]
    argv = ["--tmpfs", "/dev"]
    for name in _DEVICES:
        argv += ["--dev-bind-try", f"/dev/{name}", f"/dev/{name}"]
    for name, target in _LINKS.items():
        argv += ["--symlink", target, f"/dev/{name}"]
    return [*argv, *shm, "--remount-ro", "/dev"]
