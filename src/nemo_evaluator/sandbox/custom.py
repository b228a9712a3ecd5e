"""``custom``: a sandbox of your own, named by its class."""

import inspect
from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Name, Options, Positive
from nemo_evaluator.config.sandbox_base import SandboxBase
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox.base import Provider, Sandbox

_METHODS = ("start", "exec", "upload", "download", "stop")


class CustomConfig(SandboxBase):
    """A sandbox of your own."""

    type: Literal["custom"] = "custom"
    class_path: Name = Field(
        description="The class, as `package.module:Name`, or `file.py:Name` beside the config."
    )
    concurrency: Positive = Field(4, description="Maximum concurrent sandboxes.")
    config: Options = Field(default_factory=dict, description="Its settings.")


class CustomProvider(Provider):
    """Calls ``class_path(spec, **config)`` for every sandbox. The class follows the contract in ``sandbox.base``."""

    def __init__(self, config: CustomConfig, run_id: str) -> None:
        super().__init__(config, run_id)
        self._class = load_object(config.class_path)
        missing: list[str] = []
        for name in _METHODS:
            if not inspect.iscoroutinefunction(getattr(self._class, name, None)):
                missing.append(name)
        if missing:
            hint = "see nemo_evaluator.sandbox.base.Sandbox, or subclass nemo_evaluator.sandbox.Backend"
            raise UsageError(
                f"{config.class_path} is not a sandbox: it lacks async {', '.join(missing)}",
                hint=hint,
            )

    async def check(self) -> None:
        """Call the ``check`` of the class, if it has one."""
        check = getattr(self._class, "check", None)
        if check is not None:
            await check()

    def create(self, spec: SandboxSpec) -> Sandbox:
        """Create a sandbox of the class with the settings of the config."""
        sandbox: Sandbox = self._class(spec, **self._config.config)
        return sandbox


KIND: Final = Kind(CustomConfig, CustomProvider)
