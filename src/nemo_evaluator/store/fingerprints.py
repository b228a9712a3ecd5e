"""The proof that an old answer or verdict may be reused. Never part of a fingerprint: ports, output paths, dates,
concurrency."""

from pathlib import Path
from typing import Any, Final, Self

from nemo_evaluator.core.hashing import digest, digest_text
from nemo_evaluator.core.types import JsonDict, SandboxSpec, SeedResult, Step
from nemo_evaluator.core.values import asdict, dataclass
from nemo_evaluator.store.sums import file_sum

# Digits of a verdict's fingerprint; older journals have twice as many, of which the first are the same.
VERDICT_DIGITS: Final = 16
# Fields of a sandbox's spec that older fingerprints do not know: they count where they say something.
_NEWER: Final = frozenset({"cpus", "memory", "disk", "network"})


@dataclass(frozen=True, slots=True)
class RunFingerprints:
    """What all steps of a benchmark have in common, hashed once.

    Attributes:
        answer_base: The hash of all that answers depend on besides the problem.
        scorer: The hash of all that verdicts depend on besides the answer.
        parts: The hash of each part, to name what differs.
        seeded: Whether a sampling seed is sent: each repeat then has its own, derived from it.
    """

    answer_base: str
    scorer: str
    parts: JsonDict
    seeded: bool = False

    @classmethod
    def of(cls, *, service: JsonDict, solver: JsonDict, template: str | None, scorer: str) -> Self:
        """Hash the service's own definition, the solver's settings (with generation) and the template text."""
        named = {"service": service, "solver": solver, "scorer": scorer, "template": template}
        parts = {name: digest(value) for name, value in named.items()}
        service_generation = service.get("generation") or {}
        solver_generation = solver.get("generation") or {}
        seeded = (
            service_generation.get("seed") is not None or solver_generation.get("seed") is not None
        )
        return cls(
            digest([service, solver, template]), scorer=parts["scorer"], parts=parts, seeded=seeded
        )

    def answer(self, problem_hash: str, step: Step) -> str:
        """The fingerprint of a step's answer."""
        repeat = str(step.repeat)
        if self.seeded and step.repeat:
            repeat += " by seed"
        return digest_text(f"{self.answer_base}\x1f{problem_hash}\x1f{repeat}")

    def verdict(self, answer_fingerprint: str, seed: SeedResult) -> str:
        """The fingerprint of the verdict on an answer."""
        about = digest([seed.expected_answer, seed.metadata])
        return digest_text(f"{self.scorer}\x1f{answer_fingerprint}\x1f{about}")[:VERDICT_DIGITS]


def problem_hash(seed: SeedResult) -> str:
    """The hash of a problem's content; neither the model nor the grading is part of it."""
    # Messages that only repeat prompt and system are no other question.
    plain = seed.messages is None or seed.messages == seed.plain_messages
    asked: list[Any] = [seed.prompt if plain else seed.messages]
    if seed.system or seed.images or seed.sandbox_spec or seed.pre_agent_cmd:
        sandbox = _sandbox_content(seed.sandbox_spec) if seed.sandbox_spec else None
        asked += [seed.system, seed.images, sandbox, seed.pre_agent_cmd]
    if seed.requests is not None:
        asked.append([asdict(request) for request in seed.requests])
    return digest(asked)


def _sandbox_content(spec: SandboxSpec) -> JsonDict:
    """What a sandbox is and holds; its life time is left out."""
    fields: JsonDict = {}
    for name, value in asdict(spec).items():
        if value is not None or name not in _NEWER:
            fields[name] = value
    del fields["life"]
    # What lies in the sandbox, not where it lay on this machine.
    fields["files"] = {target: _content(Path(source)) for source, target in spec.files.items()}
    return fields


def _content(path: Path) -> Any:
    """The digest of a file, or of each file of a folder; None for a missing file, which the sandbox will report."""
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.is_file()]
        return {str(file.relative_to(path)): file_sum(file) for file in files}
    if path.is_file():
        return file_sum(path)
    return None
