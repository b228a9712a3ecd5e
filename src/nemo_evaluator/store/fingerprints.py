"""Fingerprints: proof that an earlier answer or verdict may be reused.

They never include ports, output paths, dates or concurrency.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from nemo_evaluator.core.hashing import digest, digest_text
from nemo_evaluator.core.types import JsonDict, PromptRequest, SandboxSpec, SeedResult, Step
from nemo_evaluator.core.values import asdict, dataclass
from nemo_evaluator.store.sums import file_sum

if TYPE_CHECKING:
    from nemo_evaluator.store.journal_record import FingerprintParts

# Digits of a verdict's fingerprint; older journals have twice as many and start with the same ones.
VERDICT_DIGITS: Final = 16
# Sandbox fields that older fingerprints do not include: they are hashed only when they are set.
_NEWER: Final = frozenset({"cpus", "memory", "disk", "network"})


@dataclass(frozen=True, slots=True)
class RunFingerprints:
    """The hashes that all samples of a benchmark share, computed once.

    Attributes:
        answer_base: The hash of everything an answer depends on except the problem.
        scorer: The hash of everything a verdict depends on except the answer.
        parts: The hash of each part, to report which one differs.
        seeded: Whether a sampling seed is sent; each repeat then gets its own seed, derived from it.
    """

    answer_base: str
    scorer: str
    parts: FingerprintParts
    seeded: bool = False

    @classmethod
    def of(
        cls, *, service: Mapping[str, Any], solver: JsonDict, template: str | None, scorer: str
    ) -> Self:
        """Hash the parts of a benchmark's configuration.

        Args:
            service: The definition of the model service.
            solver: The settings of the solver, including generation parameters.
            template: The text of the prompt template, if there is one.
            scorer: The hash of the scorer.
        """
        parts: FingerprintParts = {
            "service": digest(service),
            "solver": digest(solver),
            "scorer": digest(scorer),
            "template": digest(template),
        }
        return cls(
            answer_base=digest([service, solver, template]),
            scorer=parts["scorer"],
            parts=parts,
            seeded=_has_seed(service) or _has_seed(solver),
        )

    def answer(self, problem_hash: str, step: Step) -> str:
        """Return the fingerprint of a sample's answer."""
        repeat = str(step.repeat)
        if self.seeded and step.repeat:
            repeat += " by seed"
        return digest_text(f"{self.answer_base}\x1f{problem_hash}\x1f{repeat}")

    def verdict(self, answer_fingerprint: str, seed: SeedResult) -> str:
        """Return the fingerprint of the verdict on an answer."""
        expected_digest = digest([seed.expected_answer, seed.metadata])
        fingerprint = digest_text(f"{self.scorer}\x1f{answer_fingerprint}\x1f{expected_digest}")
        return fingerprint[:VERDICT_DIGITS]


def _has_seed(settings: Mapping[str, Any]) -> bool:
    """Return whether the generation settings have a sampling seed."""
    generation = settings.get("generation") or {}
    return generation.get("seed") is not None


def problem_hash(seed: SeedResult) -> str:
    """Hash a problem's content; the model and the grading are not part of it."""
    # Messages that only repeat prompt and system do not change the question.
    plain_prompt = seed.messages is None or seed.messages == seed.plain_messages
    content: list[Any] = [seed.prompt if plain_prompt else seed.messages]
    if seed.system or seed.images or seed.sandbox_spec or seed.pre_agent_cmd:
        sandbox = _sandbox_content(seed.sandbox_spec) if seed.sandbox_spec else None
        content += [seed.system, seed.images, sandbox, seed.pre_agent_cmd]
    if seed.requests is not None:
        content.append([_request_content(request) for request in seed.requests])
    return digest(content)


def _request_content(request: PromptRequest) -> JsonDict:
    """Return the hashed fields of a request; older requests have no messages."""
    fields: JsonDict = asdict(request)
    if request.messages is None:
        del fields["messages"]
    return fields


def _sandbox_content(spec: SandboxSpec) -> JsonDict:
    """Return the hashed fields of a sandbox's spec, without its lifetime."""
    fields: JsonDict = {}
    for name, value in asdict(spec).items():
        if value is not None or name not in _NEWER:
            fields[name] = value
    del fields["life"]
    # Hash the content of the files, not their paths on this machine.
    fields["files"] = {target: _content(Path(source)) for source, target in spec.files.items()}
    return fields


def _content(path: Path) -> Any:
    """Return the digest of a file, or of each file in a folder; None if it is missing, which the sandbox reports."""
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.is_file()]
        return {str(file.relative_to(path)): file_sum(file) for file in files}
    if path.is_file():
        return file_sum(path)
    return None
