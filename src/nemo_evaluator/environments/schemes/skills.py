"""``skills://NAME``: benchmarks in NeMo Skills' published layout, ``<folder>/NAME/<split>.jsonl``.

The files are read as they are published; the package itself is not needed for kinds that are scored here. They are
looked for in ``params.data_dir``, in the folder that ``NEMO_SKILLS_DATA_DIR`` names, and in the package, if installed.
"""

import importlib.util
import os
import re
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.errors import SeedError, UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict, SeedResult, VerifyResult
from nemo_evaluator.datasets import open_rows
from nemo_evaluator.environments._verdict import verdict
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.scoring import ScorerInput, exact_match, math, multichoice_regex

_VERSION: Final = "1"
_DECLARED: Final = re.compile(
    r"""^(METRICS_TYPE|EVAL_SPLIT)\s*=\s*["']([^"']+)["']""", re.MULTILINE
)
_VARIABLE: Final = "NEMO_SKILLS_DATA_DIR"
_PROBLEM: Final = ("problem", "question", "prompt", "input", "text")
_ANSWER: Final = ("expected_answer", "answer", "solution", "target", "label")
_KEPT: Final = (
    "category",
    "subject",
    "difficulty",
    "level",
    "type",
    "domain",
    "subset",
    "subset_for_metrics",
)
_CHOICE: Final = (
    "Answer the following multiple choice question. The last line of your response should be in the following format: "
    "'Answer: A/B/C/D' (e.g. 'Answer: A').\n\n{problem}"
)
_BOXED: Final = "Solve the following math problem. Put the answer (and only the answer) inside \\boxed{}.\n\n{problem}"
# The evaluation types that are scored here, with the question around a problem where no prompt is given.
_PROMPTS: Final = {"math": _BOXED, "multichoice": _CHOICE, "exact_match": "{problem}"}
_CHOICES: Final = frozenset({"gpqa", "mmlu", "mmlu-pro", "mmlu-redux", "mmlu-prox", "supergpqa"})
_MATH: Final = frozenset({
    "aime24", "aime25", "amc23", "asdiv", "college_math", "gaokao2023en", "gsm-plus", "gsm8k", "hendrycks_math",
    "hmmt_feb25", "math", "math-500", "math-odyssey", "mawps", "minerva_math", "olympiadbench", "omni-math", "svamp",
})  # fmt: skip


class SkillsEnvironment(EvalEnvironment):
    """One split of one benchmark.

    ``eval_type`` is ``math``, ``multichoice`` or ``exact_match``, else what the benchmark declares; ``prompt`` is the
    text around a problem, with ``{problem}`` in it.
    """

    def __init__(
        self,
        uri: str,
        num_examples: int | None = None,
        data_dir: str | None = None,
        split: str | None = None,
        eval_type: str | None = None,
        prompt: str | None = None,
    ) -> None:
        name = self._benchmark = uri.partition("://")[2].strip("/")
        self.name = f"skills_{safe_name(name)}"
        folder = _folder(name, data_dir)
        # What the benchmark's own file says of it, read and not run.
        own = folder / "__init__.py"
        if own.is_file():
            declared = dict(_DECLARED.findall(own.read_text(encoding="utf-8")))
        else:
            declared = {}
        if name in _CHOICES:
            known = "multichoice"
        elif name in _MATH:
            known = "math"
        else:
            known = ""
        self._kind = kind = eval_type or declared.get("METRICS_TYPE") or known
        if kind not in _PROMPTS:
            other = f"has the evaluation type {kind!r}, which nel does not score"
            said = other if kind else "declares no evaluation type"
            raise UsageError(
                f"skills://{name} {said}",
                hint=f"set params.eval_type to one of: {', '.join(_PROMPTS)}",
            )
        file = folder / f"{split or declared.get('EVAL_SPLIT') or 'test'}.jsonl"
        if not file.is_file():
            found = ", ".join(sorted(path.stem for path in folder.glob("*.jsonl"))) or "none"
            hint = f"available splits: {found}; write the file with: ns prepare_data {name}"
            raise UsageError(f"skills://{name}: {file} does not exist", hint=hint)
        self._prompt = prompt or _PROMPTS[kind]
        self._dataset = open_rows(file)[:num_examples]

    async def seed(self, idx: int) -> SeedResult:
        row = self._dataset[idx]
        problem = next((row[key] for key in _PROBLEM if row.get(key)), None)
        expected = next((row[key] for key in _ANSWER if row.get(key) is not None), None)
        if problem is None or expected is None:
            raise SeedError(
                f"skills://{self._benchmark}: row {idx} has no {'answer' if problem else 'problem'}"
            )
        metadata: JsonDict = {
            "source": "skills",
            "benchmark": self._benchmark,
            "eval_type": self._kind,
        }
        metadata |= {key: row[key] for key in _KEPT if row.get(key)}
        options = row.get("options") or row.get("choices")
        if isinstance(options, list):
            metadata |= {"options": options}
        letters = sorted(
            {line[0] for line in re.findall(r"^[A-Z][.):] ", str(problem), re.MULTILINE)}
        )
        if self._kind == "multichoice" and letters:
            metadata |= {"letters": "".join(letters)}
        asked = self._prompt.replace("{problem}", str(problem))
        return SeedResult(asked, str(expected), metadata, shown=frozenset({"options", "letters"}))

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **metadata: Any
    ) -> VerifyResult:
        sample = ScorerInput(response, expected, metadata)
        if self._kind == "math":
            scores = await math(sample)
        elif self._kind == "multichoice":
            scores = multichoice_regex(sample, labels=metadata.get("letters") or "ABCDEFGHIJ")
        else:
            scores = exact_match(sample)
        return verdict(scores, response, f"skills_{self._kind}")

    def scorer_fingerprint(self) -> str:
        return digest(["skills", _VERSION, self._kind])


def _folder(name: str, data_dir: str | None) -> Path:
    spec = importlib.util.find_spec("nemo_skills")
    if spec:
        package: list[Path] = []
        for place in spec.submodule_search_locations or []:
            package.append(Path(place) / "dataset")
    else:
        package = []
    given = [Path(place).expanduser() for place in (data_dir, os.environ.get(_VARIABLE)) if place]
    for folder in [*given, *package]:
        found = folder / name.replace(".", "/")
        if found.is_dir() and name:
            return found
    looked = (
        ", ".join(str(folder) for folder in [*given, *package]) or "nowhere: no folder is named"
    )
    hint = (
        f"set params.data_dir or {_VARIABLE} to the folder that `ns prepare_data {name}` has filled"
    )
    raise UsageError(f"skills://{name} was not found (looked in {looked})", hint=hint)


KIND: Final = Kind(build=SkillsEnvironment)
