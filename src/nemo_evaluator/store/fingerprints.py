"""The proof that an old answer or verdict may be reused. Never part of a fingerprint: ports, output paths, dates,
concurrency."""

from pathlib import Path
from typing import Any, Final, Self

from nemo_evaluator.core.hashing import digest, digest_text
from nemo_evaluator.core.types import JsonDict, SeedResult, Step
from nemo_evaluator.core.values import asdict, dataclass
from nemo_evaluator.store.sums import file_sum

# Digits of a verdict's fingerprint; older journals have twice as many, of which the first are the same.
VERDICT_DIGITS: Final = 16
# Fields of a sandbox's spec that older fingerprints do not know: they count where they say something.
_NEWER: Final = frozenset({"cpus", "memory", "disk", "network"})


@dataclass(frozen=True, slots=True)
class RunFingerprints:
    """What all steps of a benchmark have in common, hashed once."""

    answer_base: str
    scorer: str
    parts: JsonDict
    # Whether a sampling seed is sent: each repeat then has its own, derived from it.
    seeded: bool = False

    @classmethod
    def of(cls, *, service: JsonDict, solver: JsonDict, template: str | None, scorer: str) -> Self:
        """Hash the service's own definition, the solver's settings (with generation) and the template text."""
        named = {"service": service, "solver": solver, "scorer": scorer, "template": template}
        parts = {name: digest(value) for name, value in named.items()}
        seeded = any(
            (one.get("generation") or {}).get("seed") is not None for one in (service, solver)
        )
        return cls(
            digest([service, solver, template]), scorer=parts["scorer"], parts=parts, seeded=seeded
        )

    def answer(self, problem_hash: str, step: Step) -> str:
        if self.seeded and step.repeat:
            repeat: str | int = f"{step.repeat} by seed"
        else:
            repeat = step.repeat
        return digest_text(f"{self.answer_base}\x1f{problem_hash}\x1f{repeat}")

    def verdict(self, answer_fingerprint: str, seed: SeedResult) -> str:
        about = digest([seed.expected_answer, seed.metadata])
        return digest_text(f"{self.scorer}\x1f{answer_fingerprint}\x1f{about}")[:VERDICT_DIGITS]


def problem_hash(seed: SeedResult) -> str:
    """Equal content, equal hash: what is asked, without who is asked and how it is graded."""
    # Messages that only repeat prompt and system are no other question.
    plain = seed.messages is None or seed.messages == seed.plain_messages
    asked: list[Any] = [seed.prompt if plain else seed.messages]
    if seed.system or seed.images or seed.sandbox_spec or seed.pre_agent_cmd:
        if seed.sandbox_spec:
            spec: dict[str, Any] | None = asdict(seed.sandbox_spec)
        else:
            spec = None
        if spec is not None:
            del spec["life"]
            spec = {
                name: value
                for name, value in spec.items()
                if value is not None or name not in _NEWER
            }
            # What lies in the sandbox, not where it lay on this machine.
            spec["files"] = {there: _content(Path(here)) for here, there in spec["files"].items()}
        asked += [seed.system, seed.images, spec, seed.pre_agent_cmd]
    if seed.requests is not None:
        asked.append([asdict(request) for request in seed.requests])
    return digest(asked)


def _content(path: Path) -> Any:
    """What a file, or each file of a folder, holds; None for what is not there, which the sandbox will say."""
    if path.is_dir():
        return {
            str(one.relative_to(path)): file_sum(one)
            for one in sorted(path.rglob("*"))
            if one.is_file()
        }
    if path.is_file():
        return file_sum(path)
    return None
