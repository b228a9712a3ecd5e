"""The base of all backends: commands, output, environment and transfers on top of one primitive, ``_run``."""

import contextlib
import re
import shlex
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import IO, Any, ClassVar, Final, Self

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox import _transfer
from nemo_evaluator.sandbox._pump import Capped
from nemo_evaluator.sandbox._reaper import Reaper
from nemo_evaluator.sandbox.base import ExecResult, Exit, OnOutput, OutsideEndpoint, Sandbox

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)
_FACTOR: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse_size(text: str) -> int:
    """Return the bytes of a size such as "512m", "4g", "4GiB" or a plain number.

    Raises:
        ValueError: The text is not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size")
    return int(float(match[1]) * _FACTOR[match[2].lower()])


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sandbox may use and reach; a backend applies the limits that it supports."""

    memory: int = 4 * 2**30
    cpus: float = 2.0
    pids: int = 512
    # No network unless the config or the problem asks for one. The model proxy needs none: see ``_let_in``.
    network: str = "none"
    # Private networks that a container with a network may reach.
    private_networks: Sequence[str] | None = None
    read_only: bool = False
    runtime: str | None = None
    disk: int = 20 * 2**30
    # Whether one program after another runs in it; none may leave anything for the next.
    shared: bool = False

    @classmethod
    def of(cls, config: Any) -> Self:
        """The limits that a sandbox config sets."""
        names = {limit.name for limit in fields(cls)}
        values: dict[str, Any] = config.model_dump(include=names)
        for name in ("memory", "disk"):
            if name in values:
                values[name] = parse_size(values[name])
        return cls(**values)

    def of_problem(self, spec: SandboxSpec, config: Any, *, online: str = "none") -> Self:
        """These limits, with those of a problem wherever the config sets none itself.

        Args:
            spec: The sandbox that the problem asks for.
            config: The sandbox config.
            online: The network of a problem that may reach the internet. One that may not never has a network.
        """
        wishes: dict[str, Any] = {"memory": spec.memory, "cpus": spec.cpus, "disk": spec.disk}
        wishes["network"] = online if spec.network else None
        changes: dict[str, Any] = {}
        for name, value in wishes.items():
            if value is not None and name not in config.model_fields_set:
                changes[name] = value
        if spec.network is False:
            changes["network"] = "none"
        return replace(self, **changes)


@dataclass(slots=True)
class BackendCommand:
    """One command as a backend runs it."""

    argv: list[str]
    timeout: float
    cwd: str
    env: dict[str, str]
    stdin: bytes | IO[bytes] | None = None
    user: str | None = None
    background: bool = False
    # A command of nel itself that carries files in or out.
    transfer: bool = False
    # Where the backend can: with a working directory and scratch folders of its own, which are removed afterwards.
    private: bool = False


# Receives "stdout" or "stderr", and a piece of output.
Emit = Callable[[str, bytes], None]


@dataclass(eq=False)
class Backend(ABC):
    """Base of the backends: each implements ``_open``, ``_run`` and ``resolve_outside_endpoint``."""

    spec: SandboxSpec
    run_id: str = ""
    name: str = field(default_factory=lambda: f"nel-{uuid.uuid4().hex[:12]}")
    settings: Limits = field(default_factory=Limits)
    # Removes the sandbox when the evaluator is killed.
    reaper: Reaper | None = None
    started: bool = field(default=False, init=False)
    endpoints: dict[str, str] = field(default_factory=dict, init=False)
    base_env: dict[str, str] = field(default_factory=dict, init=False)
    container_ip: str | None = field(default=None, init=False)
    _ending: contextlib.AsyncExitStack = field(
        default_factory=contextlib.AsyncExitStack, init=False
    )
    # The user that a judge runs as, where a user can be chosen.
    _root_user: ClassVar[str | None] = None
    kind: ClassVar[str] = "custom"
    _needs_image: ClassVar[bool] = False

    @property
    def is_running(self) -> bool:
        """True between ``start`` and ``stop``."""
        return self.started

    async def start(self, *, outside_endpoints: Sequence[OutsideEndpoint] = ()) -> None:
        """Start the sandbox; if that fails, remove it again."""
        if self.started:
            return
        if self._needs_image and not self.spec.image:
            raise SandboxError(
                f"a sandbox of type {self.kind} needs an image", hint="set image on the sandbox"
            )
        try:
            await self._open(outside_endpoints)
            self.started = True
            await self._prepare()
        except BaseException:
            with contextlib.suppress(SandboxError):
                await self.stop()
            raise

    async def _open(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        """Start the sandbox, so that commands can run in it, and call ``_reach`` for the endpoints.

        What is to be done at the end is pushed to ``_ending``, which runs the last entry first.
        """
        raise NotImplementedError

    async def _prepare(self) -> None:
        """Upload the files that the spec names."""
        for local, remote in self.spec.files.items():
            await self.upload(Path(local), remote)

    async def stop(self) -> None:
        """Stop the sandbox; safe to call twice."""
        self.started = False
        ending = self._ending
        self._ending = contextlib.AsyncExitStack()
        await ending.aclose()

    @abstractmethod
    async def _run(self, job: BackendCommand, emit: Emit) -> Exit:
        """Run one command, and pass its output to ``emit`` as it arrives."""

    def shell(self, command: str) -> list[str]:
        """Return the argument list that runs a shell command."""
        return ["bash", "-c", command]

    async def exec(
        self,
        command: str | Sequence[str],
        timeout: float = 180.0,
        *,
        timeout_sec: float | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        user: str | None = None,
        max_output_bytes: int = 1_000_000,
        on_output: OnOutput | None = None,
        background: bool = False,
    ) -> ExecResult:
        """Run a command with a hard deadline; see the contract (``Sandbox.exec``)."""
        job = BackendCommand(
            argv=self.shell(command) if isinstance(command, str) else list(command),
            timeout=timeout if timeout_sec is None else timeout_sec,
            cwd=cwd or self.spec.workdir,
            env=self._env(env),
            stdin=stdin,
            user=user,
            background=background,
        )
        return await self._collect(job, max_output_bytes, on_output)

    async def run_judge(
        self, command: Sequence[str], stdin: bytes, *, timeout: float = 30.0
    ) -> ExecResult:
        """Run a command that starts a program and judges it; see the contract (``Sandbox.run_judge``)."""
        job = BackendCommand(
            argv=list(command),
            timeout=timeout,
            cwd=self.spec.workdir,
            env=self._env(),
            stdin=stdin,
            user=self._root_user,
            private=True,
        )
        return await self._collect(job)

    async def upload(self, source: Path | str | bytes, target: str) -> None:
        """Put a file, a folder's content, or bytes at ``target``; digests are compared inside."""
        self._check()
        await _transfer.upload(self._pipe, source, self._absolute(target))

    async def download(self, source: str, target: Path | str) -> None:
        """Fetch a file or a folder's content; digests are compared, and nothing is written outside ``target``."""
        self._check()
        await _transfer.download(self._pipe, self._absolute(source), Path(target))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()

    def resolve_outside_endpoint(self, url: str) -> str:
        """The address under which code inside reaches a URL of the host."""
        return url

    def resolved_endpoint_url(self, env_var: str) -> str | None:
        """The address of a registered endpoint inside; None for an unknown one."""
        return self.endpoints.get(env_var)

    async def _reach(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        """Make the endpoints known to commands inside."""
        for endpoint in outside_endpoints:
            url_inside = await self._let_in(endpoint.url)
            self.endpoints |= endpoint.inside(url_inside)

    async def _let_in(self, url: str) -> str:
        """Make a URL of the host reachable, and return its address inside."""
        return self.resolve_outside_endpoint(url)

    async def _forget(self) -> None:
        """Tell the reaper that the sandbox is removed."""
        if self.reaper is not None:
            await self.reaper.forget(self.name)

    async def _pipe(
        self,
        argv: list[str],
        stdin: IO[bytes] | None,
        sink: Callable[[bytes], object] | None,
        timeout: float,
    ) -> tuple[Exit, str]:
        """Run a command for a transfer.

        Args:
            argv: The command.
            stdin: The file that it reads.
            sink: Receives its stdout.
            timeout: Seconds until it is killed.

        Returns:
            How it ended, and its stderr.
        """
        errors = Capped(20_000)

        def emit(stream: str, data: bytes) -> None:
            if stream == "stderr":
                errors.add(data)
            elif sink is not None:
                sink(data)

        job = BackendCommand(argv, timeout, "/", env=self._env(), stdin=stdin, transfer=True)
        exit_state = await self._run(job, emit)
        return exit_state, errors.text()

    async def _collect(
        self, job: BackendCommand, cap: int = 1_000_000, on_output: OnOutput | None = None
    ) -> ExecResult:
        """Run a command and keep its output, at most ``cap`` bytes of each stream."""
        self._check()
        outputs = {"stdout": Capped(cap), "stderr": Capped(cap)}

        def emit(stream: str, data: bytes) -> None:
            outputs[stream].add(data)
            if on_output is not None:
                on_output(stream, data)

        began = time.perf_counter()
        exit_state = await self._run(job, emit)
        duration = time.perf_counter() - began
        return ExecResult(
            stdout=outputs["stdout"].text(),
            stderr=outputs["stderr"].text(),
            return_code=exit_state.code,
            timed_out=exit_state.timed_out,
            truncated=any(output.truncated for output in outputs.values()),
            out_of_memory=exit_state.out_of_memory,
            duration_ms=duration * 1e3,
        )

    def _env(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        return {**self.base_env, **self.spec.env, **self.endpoints, **(extra or {})}

    def _absolute(self, path: str) -> str:
        if path.startswith("/"):
            return path
        return f"{self.spec.workdir.rstrip('/')}/{path}"

    def _check(self) -> None:
        if not self.started:
            raise SandboxError(
                "Sandbox not started",
                hint="call start() first, or use the sandbox in an async with",
            )


def keepalive(spec: SandboxSpec) -> str:
    """The shell text of a container's main process: its entrypoint, or an endless wait.

    Without an entrypoint the shell itself is process 1: it reaps orphans, and no ``kill -9 -1`` inside can end it.
    """
    if spec.entrypoint is None:
        return "while :; do sleep 2147483647 & wait $!; done"
    if isinstance(spec.entrypoint, str):
        return spec.entrypoint
    return shlex.join(spec.entrypoint)


async def run_judge(
    sandbox: Sandbox, command: Sequence[str], stdin: bytes, **options: Any
) -> ExecResult:
    """Call ``sandbox.run_judge``, or ``exec`` for a user's class that has only the five basic methods."""
    if hasattr(sandbox, "run_judge"):
        return await sandbox.run_judge(command, stdin, **options)
    return await sandbox.exec(command, stdin=stdin, **options)
