"""``type: sandbox``: a command in the sandbox; exit code 0 means right."""

from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Above0
from nemo_evaluator.config.scoring import MetricBase
from nemo_evaluator.core.errors import SandboxError, ScorerError
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring.metric import MetricInput, MetricResult

RESPONSE_FILE: Final = "/tmp/nel_response.txt"
_OWN_COMMANDS: Final = ("verify_command", "test_command", "verify_cmd", "test_cmd")
_SHOWN: Final = 2000


class SandboxMetric(MetricBase):
    """A command in the sandbox; exit code 0 means right."""

    type: Literal["sandbox"] = "sandbox"
    command: str | None = Field(None, description="The command; null: the problem's own.")
    verify_timeout: Above0 = Field(600.0, description="Seconds for the command.")


class SandboxCommand:
    """``type: sandbox``. The command finds the answer in the file that ``$NEL_RESPONSE`` names."""

    def __init__(
        self, config: SandboxMetric, clients: object = None, environment: object = None
    ) -> None:
        self.name = config.name
        self._command = config.command
        self._timeout = config.verify_timeout
        self.fingerprint = digest(["sandbox", self._command, self._timeout])

    async def measure(self, sample: MetricInput) -> MetricResult:
        """Run the command with the response in a file; the reward is 1 when the exit code is 0, else 0.

        Raises:
            SandboxError: There is no sandbox to run it in.
            ScorerError: There is no command.
        """
        if sample.sandbox is None:
            raise SandboxError(
                f"metric {self.name!r} needs a sandbox", hint="give the benchmark a `sandbox:`"
            )
        metadata = sample.seed.metadata
        command = self._command or next(
            (str(metadata[key]) for key in _OWN_COMMANDS if metadata.get(key)), None
        )
        if command is None:
            raise ScorerError(
                f"metric {self.name!r} has no command, and the problem has none",
                hint="set `command`, or give the rows a column `verify_command`",
            )
        await sample.sandbox.upload(sample.response.encode(), RESPONSE_FILE)
        environment = {"NEL_RESPONSE": RESPONSE_FILE, "NEL_EXPECTED": sample.seed.expected_answer}
        result = await sample.sandbox.exec(command, timeout=self._timeout, env=environment)
        details: JsonDict = {"exit_code": result.exit_code, "stdout": result.stdout[-_SHOWN:]}
        if not result.ok:
            details["stderr"] = result.stderr[-_SHOWN:]
        if result.timed_out:
            details["timed_out"] = True
        return MetricResult(float(result.ok), details)


KIND: Final = Kind(SandboxMetric, SandboxCommand)
