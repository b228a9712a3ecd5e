"""``skills://NAME``: benchmarks in NeMo Skills' published layout, ``<folder>/NAME/<split>.jsonl``.

nel reads the files as published, and scores these benchmarks without the package. It searches ``params.data_dir``, the
folder in ``NEMO_SKILLS_DATA_DIR``, and the package if it is installed.
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
# The evaluation types that nel scores, with their default prompts.
_PROMPTS: Final = {"math": _BOXED, "multichoice": _CHOICE, "exact_match": "{problem}"}
_CHOICES: Final = frozenset({"gpqa", "mmlu", "mmlu-pro", "mmlu-redux", "mmlu-prox", "supergpqa"})
_MATH: Final = frozenset({
    "aime24", "aime25", "amc23", "asdiv", "college_math", "gaokao2023en", "gsm-plus", "gsm8k", "hendrycks_math",
    "hmmt_feb25", "math", "math-500", "math-odyssey", "mawps", "minerva_math", "olympiadbench", "omni-math", "svamp",
})  # fmt: skip


class SkillsEnvironment(EvalEnvironment):
    """One split of a NeMo Skills benchmark.

    Args:
        uri: ``skills://NAME``.
        num_examples: The number of problems, from the first; None for all.
        data_dir: The folder with the benchmarks.
        split: The split; by default what the benchmark declares, else ``test``.
        eval_type: ``math``, ``multichoice`` or ``exact_match``; by default what the benchmark declares.
        prompt: The text around a problem, with ``{problem}`` in it.

    Raises:
        UsageError: The benchmark or the split does not exist, or nel cannot score its evaluation type.
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
        name = uri.partition("://")[2].strip("/")
        self._benchmark = name
        self.name = f"skills_{safe_name(name)}"
        folder = _folder(name, data_dir)
        declared = _declarations(folder)
        evaluation_type = eval_type or declared.get("METRICS_TYPE") or _default_type(name)
        if evaluation_type not in _PROMPTS:
            reason = "declares no evaluation type"
            if evaluation_type:
                reason = f"has the evaluation type {evaluation_type!r}, which nel does not score"
            raise UsageError(
                f"skills://{name} {reason}",
                hint=f"set params.eval_type to one of: {', '.join(_PROMPTS)}",
            )
        self._kind = evaluation_type
        chosen_split = split or declared.get("EVAL_SPLIT") or "test"
        file = folder / f"{chosen_split}.jsonl"
        if not file.is_file():
            splits = sorted(path.stem for path in folder.glob("*.jsonl"))
            available_splits = ", ".join(splits) or "none"
            hint = (
                f"available splits: {available_splits}; write the file with: ns prepare_data {name}"
            )
            raise UsageError(f"skills://{name}: {file} does not exist", hint=hint)
        self._prompt = prompt or _PROMPTS[evaluation_type]
        self._dataset = open_rows(file)[:num_examples]

    async def seed(self, idx: int) -> SeedResult:
        """Return a row as a problem.

        Raises:
            SeedError: The row has no problem or no answer.
        """
        row = self._dataset[idx]
        problem = _problem_of(row)
        expected = _answer_of(row)
        if problem is None:
            raise SeedError(f"skills://{self._benchmark}: row {idx} has no problem")
        if expected is None:
            raise SeedError(f"skills://{self._benchmark}: row {idx} has no answer")
        metadata: JsonDict = {
            "source": "skills",
            "benchmark": self._benchmark,
            "eval_type": self._kind,
        }
        for key in _KEPT:
            if row.get(key):
                metadata[key] = row[key]
        options = row.get("options") or row.get("choices")
        if isinstance(options, list):
            metadata["options"] = options
        if self._kind == "multichoice":
            # The letters at the start of lines such as "A. Paris".
            option_starts = re.findall(r"^[A-Z][.):] ", str(problem), re.MULTILINE)
            letters = sorted({option_start[0] for option_start in option_starts})
            if letters:
                metadata["letters"] = "".join(letters)
        prompt = self._prompt.replace("{problem}", str(problem))
        return SeedResult(prompt, str(expected), metadata, shown=frozenset({"options", "letters"}))

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **metadata: Any
    ) -> VerifyResult:
        """Score an answer by the evaluation type of the benchmark."""
        sample = ScorerInput(response, expected, metadata)
        if self._kind == "math":
            scores = await math(sample)
        elif self._kind == "multichoice":
            scores = multichoice_regex(sample, labels=metadata.get("letters") or "ABCDEFGHIJ")
        else:
            scores = exact_match(sample)
        return verdict(scores, response, f"skills_{self._kind}")

    def scorer_fingerprint(self) -> str:
        """Identify the evaluation type."""
        return digest(["skills", _VERSION, self._kind])


def _declarations(folder: Path) -> dict[str, str]:
    """Read what a benchmark declares about itself, without running its code."""
    declaration_file = folder / "__init__.py"
    if not declaration_file.is_file():
        return {}
    return dict(_DECLARED.findall(declaration_file.read_text(encoding="utf-8")))


def _default_type(name: str) -> str:
    """Return the evaluation type of a well-known benchmark; empty for others."""
    if name in _CHOICES:
        return "multichoice"
    if name in _MATH:
        return "math"
    return ""


def _problem_of(row: JsonDict) -> Any:
    """Return the first column with a problem that is not empty; None without one."""
    for key in _PROBLEM:
        if row.get(key):
            return row[key]
    return None


def _answer_of(row: JsonDict) -> Any:
    """Return the first column with an answer, which may be 0; None without one."""
    for key in _ANSWER:
        if row.get(key) is not None:
            return row[key]
    return None


def _folder(name: str, data_dir: str | None) -> Path:
    """Return the folder of a benchmark.

    Raises:
        UsageError: No searched folder has the benchmark.
    """
    folders: list[Path] = []
    for location in (data_dir, os.environ.get(_VARIABLE)):
        if location:
            folders.append(Path(location).expanduser())
    package = importlib.util.find_spec("nemo_skills")
    if package is not None:
        for location in package.submodule_search_locations or []:
            folders.append(Path(location) / "dataset")
    for folder in folders:
        benchmark_folder = folder / name.replace(".", "/")
        if benchmark_folder.is_dir() and name:
            return benchmark_folder
    searched = ", ".join(map(str, folders)) or "nowhere: no folder is named"
    hint = (
        f"set params.data_dir or {_VARIABLE} to the folder that `ns prepare_data {name}` has filled"
    )
    raise UsageError(f"skills://{name} was not found (looked in {searched})", hint=hint)


KIND: Final = Kind(build=SkillsEnvironment)
