"""What a local sandbox shows of the machine: the arguments of bubblewrap."""

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
# Of the host's /etc only what programs need to start; no accounts, no keys, no configuration of services.
_ETC: Final = (
    *(
        "ld.so.cache",
        "ld.so.conf",
        "ld.so.conf.d",
        "alternatives",
        "localtime",
        "mime.types",
        "protocols",
        "services",
    ),
    *("ssl/certs", "python3", "python3.11", "perl", "java-17-openjdk", "fonts"),
)
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_ENDS: Final = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
_LINKS: Final = {name: f"/proc/self/fd{end}" for name, end in _ENDS.items()}
_ST_NODEV: Final = 4
_SMALLEST: Final = 64 * 2**20
# Base systems whose place this machine's own system may take; any other image is a promise that we cannot keep.
_PLAIN_IMAGES: Final = ("", "python", "debian", "ubuntu", "bash")


def arguments(spec: SandboxSpec, memory: int, network: str, folder: Path) -> list[str]:
    """The command line for a sandbox; ``folder`` holds the small files of its /etc."""
    # That of the system; one that a user could have put on PATH is not looked at.
    bwrap = next((path for path in BWRAP if os.access(path, os.X_OK)), None)
    if bwrap is None:
        raise SandboxError(
            "bubblewrap is not installed", hint="apt-get install bubblewrap (or dnf, apk, pacman)"
        )
    argv = [
        bwrap,
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    argv += [] if network == "host" else ["--unshare-net"]
    argv += ["--hostname", "sandbox", "--die-with-parent", "--info-fd", "{info}"]
    argv += _root(spec.image)
    argv += ["--ro-bind", str(folder / "etc"), "/etc"]
    if network == "host":
        argv += ["--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf"]
    argv += _dev(folder)
    size = str(max(_SMALLEST, memory // 4))
    argv += [
        "--proc",
        "/proc",
        "--dir",
        "/run",
        "--perms",
        "1777",
        "--size",
        size,
        "--tmpfs",
        "/tmp",
    ]
    argv += ["--perms", "0755", "--dir", HOME]
    workdir = spec.workdir
    if not workdir.startswith("/") or workdir in ("/", "/tmp", "/proc", "/dev", "/usr", "/etc"):
        raise SandboxError(f"{workdir!r} cannot be the working directory of a local sandbox")
    argv += ["--size", size, "--tmpfs", workdir]
    for mount in volumes_of(spec):
        if mount.host_path:
            argv += [
                "--ro-bind" if mount.readonly else "--bind",
                mount.host_path,
                mount.container_path,
            ]
        else:
            argv += ["--size", size, "--tmpfs", mount.container_path]
    return [*argv, "--remount-ro", "/", "--chdir", "/", "--", "/bin/cat"]


def _root(image: str) -> list[str]:
    if image.startswith("/"):
        root = Path(image)
        if not (root / "usr").is_dir():
            raise SandboxError(
                f"{image} is not a root file system",
                hint="name a folder that holds usr/, or no image",
            )
    elif image.split(":")[0].rpartition("/")[2] in _PLAIN_IMAGES:
        root = Path("/")
    else:
        hint = "use a docker sandbox, or give the path of an unpacked root file system as image"
        raise SandboxError(f"a local sandbox cannot run the image {image!r}", hint=hint)
    argv = ["--ro-bind", str(root / "usr"), "/usr"]
    for name in _SYSTEM:
        path = root / name
        if path.is_symlink():
            argv += ["--symlink", str(path.readlink()), f"/{name}"]
        elif path.is_dir():
            argv += ["--ro-bind", str(path), f"/{name}"]
    prefix = Path(sys.base_prefix)
    if root != Path("/"):
        for path in (root / name for name in ("opt", "var", "srv")):
            if path.is_dir():
                argv += ["--ro-bind", str(path), f"/{path.name}"]
    elif not Path("/usr/bin/python3").exists() and not str(prefix).startswith("/usr"):
        # Our own interpreter, where the system has none and anyone may read ours.
        open_to_all = all(part.stat().st_mode & stat.S_IXOTH for part in (prefix, *prefix.parents))
        if open_to_all:
            argv += ["--ro-bind", str(prefix), str(prefix)]
    return argv


def prepare(folder: Path, uid: int) -> None:
    """Write the /etc and, where we may, the /dev of all sandboxes: one mount each instead of twenty."""
    etc = folder / "etc"
    dev = folder / "dev"
    etc.mkdir()
    for name in _ETC:
        source = Path("/etc") / name
        target = etc / name
        if not source.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, ignore_dangling_symlinks=True)
        else:
            shutil.copy(source, target)
    accounts = f"root:x:0:0:root:/root:/usr/sbin/nologin\nsandbox:x:{uid}:{uid}::{HOME}:/bin/sh\n"
    (etc / "passwd").write_text(accounts)
    (etc / "group").write_text(f"root:x:0:\nsandbox:x:{uid}:\n")
    (etc / "hosts").write_text("127.0.0.1 localhost sandbox\n::1 localhost\n")
    if os.getuid() == 0 and not os.statvfs(folder).f_flag & _ST_NODEV:
        (dev / "shm").mkdir(parents=True)
        for source in (Path("/dev", name) for name in _DEVICES):
            if source.exists():
                os.mknod(dev / source.name, stat.S_IFCHR | 0o666, source.stat().st_rdev)
                (dev / source.name).chmod(0o666)
        for name, end in _LINKS.items():
            (dev / name).symlink_to(end)
        dev.chmod(0o755)
    etc.chmod(0o755)


def _dev(folder: Path) -> list[str]:
    shm = ["--perms", "1777", "--size", str(_SMALLEST), "--tmpfs", "/dev/shm"]
    if (folder / "dev").is_dir():
        # Devices cannot be written to by name of the folder: it belongs to root, whom no one inside is.
        return ["--dev-bind", str(folder / "dev"), "/dev", *shm]
    argv = ["--tmpfs", "/dev"]
    for name in _DEVICES:
        argv += ["--dev-bind-try", f"/dev/{name}", f"/dev/{name}"]
    for name, target in _LINKS.items():
        argv += ["--symlink", target, f"/dev/{name}"]
    return [*argv, *shm, "--remount-ro", "/dev"]
