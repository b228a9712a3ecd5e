"""The environment behind ``@benchmark``: rows become prompts, a scorer judges the answers."""

import inspect
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from nemo_evaluator.core.code_words import code_words
from nemo_evaluator.core.errors import NelError, UsageError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict, SandboxSpec, SeedResult, VerifyResult
from nemo_evaluator.datasets import DatasetRef, MappedRows, Rows, as_rows, open_rows
from nemo_evaluator.datasets.lock import one_write
from nemo_evaluator.environments._verdict import ScorerRunner, fingerprint
from nemo_evaluator.environments.base import EnvironmentFacts, EvalEnvironment
from nemo_evaluator.environments.definition import (
    BenchmarkDefinition,
    DatasetSource,
    check_requirements,
)
from nemo_evaluator.environments.prompt import FewShot, PromptTemplate, template_text
from nemo_evaluator.sandbox.base import ImageBuildRequest, Sandbox
from nemo_evaluator.scoring.types import ScorerInput

# Rows looked at when a benchmark is loaded, to learn the columns of ragged datasets.
_LOOKED_AT: Final = 20
_DATASET_PARAMS: Final = ("dataset", "split", "revision")
DEFAULT_PROTOCOL: Final = "default"


class BenchmarkEnvironment(EvalEnvironment):
    """One benchmark, opened. Rows are read and prepared when they are asked for, and none is kept.

    ``prepare_row`` and random numbers: row ``idx`` gets ``random.Random(f"42:{idx}")``, so what a row becomes depends
    on its number alone and not on which rows were read before it.
    """

    definition: BenchmarkDefinition

    def __init__(
        self, num_examples: int | None = None, num_fewshot: int | None = None, **params: Any
    ) -> None:
        self.name = self.definition.name
        self.params = self._checked(params)
        definition = self.definition = self._by_protocol()
        check_requirements(definition.requirements, definition.name)
        self._config = {**definition.extra, **self.params}
        with one_write():
            raw = self._open(definition.dataset, num_examples)
        self._dataset: Rows = self._prepared(raw[:num_examples], "42")
        if definition.score:
            self._runner: ScorerRunner | None = ScorerRunner(definition.score, self.name)
        else:
            self._runner = None
        self._columns = self._look()
        if definition.seed_fn is None:
            self._template: PromptTemplate | None = self._compile()
        else:
            self._template = None
        count = definition.fewshot if num_fewshot is None else num_fewshot
        if count > 0:
            self._fewshot: FewShot | None = self._open_fewshot(count)
        else:
            self._fewshot = None
        self._seed_takes_fewshot = definition.seed_fn is not None and _takes(
            definition.seed_fn, "fewshot"
        )
        if definition.judge_prompt is not None:
            self.judge_prompt = definition.judge_prompt
        if definition.parse_judge is not None:
            self.parse_judge = definition.parse_judge

    @classmethod
    def facts(cls) -> EnvironmentFacts:
        """The facts of its definition; a judge also where the scorer calls ``needs_judge`` or ``fallback``."""
        definition = cls.definition
        words = code_words(cls.definition.score)
        needs = frozenset({*definition.info.needs, *(["judge"] if "needs_judge" in words else [])})
        fallback = definition.info.judge_optional or "fallback" in words
        return EnvironmentFacts(
            needs, definition.endpoint_type, fallback, summary=definition.summary
        )

    def expect(self, problems: Sequence[int]) -> None:
        if isinstance(self._dataset, Rows):
            self._dataset.expect(problems)

    async def seed(self, idx: int) -> SeedResult:
        row = self._dataset[idx]
        if self._template is None:
            return await self._seed_by_function(row, idx)
        if self._fewshot is not None:
            row["fewshot"] = self._fewshot.text({k: v for k, v in row.items() if k != "fewshot"})
        elif self._has_fewshot_field:
            row["fewshot"] = ""
        prompt = self._template.render(row)
        if self._fewshot is not None and not self._has_fewshot_field:
            prompt = row["fewshot"] + prompt
        row.pop("fewshot", None)
        target = row.get(self.definition.target_field, "")
        problem = SeedResult(
            prompt=prompt,
            expected_answer=target if type(target) is str else str(target),
            metadata={"source": "byob", "benchmark": self.name, **row},
            system=self.definition.system_prompt,
            shown=frozenset() if self.full_rows else self._shown,
        )
        problem.messages = problem.plain_messages
        return problem

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **metadata: Any
    ) -> VerifyResult:
        return await self._score(
            ScorerInput(response, expected, metadata, config=self._config, sandbox=sandbox)
        )

    async def verify_answer(
        self, response: str, seed: SeedResult, sandbox: Sandbox | None = None
    ) -> VerifyResult:
        sample = ScorerInput(
            response,
            seed.expected_answer,
            seed.metadata,
            config=self._config,
            sandbox=sandbox,
            trajectory=seed.trajectory,
        )
        return await self._score(sample)

    def scorer_fingerprint(self) -> str:
        definition = self.definition
        hooks = (definition.score, definition.judge_prompt, definition.parse_judge)
        settings = {"name": self.name, "config": self._config}
        return fingerprint([hook for hook in hooks if hook is not None], settings)

    async def sandbox_specs(self) -> list[SandboxSpec] | None:
        if self.definition.seed_fn is None:
            return None
        specs: dict[str, SandboxSpec] = {}
        for idx in range(len(self._dataset)):
            seed = await self.seed(idx)
            for spec in (seed.sandbox_spec, seed.verify_sandbox_spec):
                if spec is not None:
                    specs.setdefault(repr(spec), spec)
        return list(specs.values()) or None

    async def image_build_requests(self) -> list[Any] | None:
        builder = self.definition.image_builder
        if builder is None:
            return None
        request = builder(self._dataset)
        if inspect.isawaitable(request):
            request = await request
        if not isinstance(request, ImageBuildRequest):
            kind = type(request).__name__
            raise TypeError(
                f"the image builder of {self.name} returned {kind}, not ImageBuildRequest"
            )
        return [request]

    async def close(self) -> None:
        self._dataset.close()
        if self._runner is not None:
            self._runner.close()

    async def _score(self, sample: ScorerInput) -> VerifyResult:
        if self._runner is not None:
            return await self._runner.run(sample)
        response = sample.response.strip()
        target = str(sample.target).strip()
        correct = response.lower() == target.lower()
        return VerifyResult(
            float(correct), response, {"method": "default_exact_match", "correct": correct}
        )

    async def _seed_by_function(self, row: JsonDict, idx: int) -> SeedResult:
        function = self.definition.seed_fn
        assert function is not None
        if self._seed_takes_fewshot:
            examples = {"fewshot": self._fewshot.rows(row) if self._fewshot else []}
        else:
            examples = {}
        problem: Any = function(row, idx, **examples)
        if inspect.isawaitable(problem):
            problem = await problem
        if not isinstance(problem, SeedResult):
            raise TypeError(
                f"seed_fn of {self.name} returned {type(problem).__name__}, not SeedResult"
            )
        if self.definition.system_prompt and problem.system is None and problem.messages is None:
            problem.system = self.definition.system_prompt
        if problem.messages is None and not problem.images:
            problem.messages = problem.plain_messages
        return problem

    def _checked(self, params: JsonDict) -> JsonDict:
        """The parameters with their defaults; an unknown one is refused."""
        declared = self.definition.params
        general = () if callable(self.definition.dataset) else _DATASET_PARAMS
        accepted = [*declared, *general]
        for key in params:
            if key not in accepted:
                hint = did_you_mean(
                    key, accepted, also=f"accepted: {', '.join(accepted) or 'none'}"
                )
                raise UsageError(
                    f"benchmark {self.definition.name!r} has no parameter {key!r}", hint=hint
                )
        dataset_params: dict[str, Any] = {}
        for key in general:
            if key in params and key not in declared:
                dataset_params[key] = params.pop(key)
        self._dataset_params = dataset_params
        return {**declared, **params}

    def _by_protocol(self) -> BenchmarkDefinition:
        """The definition with the changes of the chosen protocol."""
        definition = self.definition
        name = str(self.params.get("protocol", DEFAULT_PROTOCOL))
        if not definition.protocols or name == DEFAULT_PROTOCOL:
            return definition
        known = [DEFAULT_PROTOCOL, *definition.protocols]
        if name not in known:
            hint = did_you_mean(name, known, also=f"it has: {', '.join(known)}")
            raise UsageError(f"benchmark {definition.name!r} has no protocol {name!r}", hint=hint)
        return replace(definition, **definition.protocols[name])

    def _open(self, dataset: DatasetSource, num_examples: int | None) -> Rows:
        if not callable(dataset):
            return open_rows(self._located(str(dataset)), self.definition.folder)
        offered = {**self.params, "num_examples": num_examples}
        named = {key: value for key, value in offered.items() if _takes(dataset, key)}
        return as_rows(dataset(**named), f"the dataset function of {self.name}")

    def _located(self, dataset: str) -> str | DatasetRef:
        changes = self._dataset_params
        dataset = str(changes.get("dataset", dataset))
        if "split" not in changes and "revision" not in changes:
            return dataset
        ref = DatasetRef.parse(dataset)
        if "split" in changes:
            ref = ref.with_split(str(changes["split"]))
        return replace(ref, revision=changes.get("revision", ref.revision))

    def _prepared(self, rows: Rows, salt: str) -> Rows:
        mapping = self.definition.field_mapping
        prepare = self.definition.prepare_row
        if not mapping and prepare is None:
            return rows
        arity = _positional_count(prepare) if prepare is not None else 0

        def change(row: JsonDict, idx: int) -> JsonDict:
            for source, name in mapping.items():
                if source in row:
                    row[name] = row[source]
            if prepare is None:
                return row
            if arity >= 3:
                prepared = prepare(row, idx, random.Random(f"{salt}:{idx}"))
            else:
                prepared = prepare(*(row, idx)[:arity])
            if not isinstance(prepared, dict):
                raise TypeError(f"prepare_row returned {type(prepared).__name__}, not a dict")
            return prepared

        return MappedRows(rows, change)

    def _look(self) -> set[str]:
        """The columns of the first rows; a row that cannot be prepared stops the benchmark before anything is asked."""
        columns: set[str] = set()
        for idx in range(min(_LOOKED_AT, len(self._dataset))):
            try:
                with boundary(Cause.SEED):
                    columns.update(self._dataset[idx])
            except NelError as error:
                cause = error.__cause__
                question = (
                    f"; is {cause} a column of the dataset?" if isinstance(cause, KeyError) else ""
                )
                raise UsageError(
                    f"{self.name}: row {idx} of {self._dataset.source} cannot be prepared: "
                    f"{error.message}{question}",
                    hint=error.hint,
                ) from error
        return columns

    def _compile(self) -> PromptTemplate:
        definition = self.definition
        if not definition.prompt:
            raise UsageError(
                f"benchmark {self.name!r} has no prompt",
                hint="give @benchmark a prompt, or a seed_fn",
            )
        text = template_text(definition.prompt, definition.folder, self.name)
        columns = self._columns or {definition.target_field}
        self._has_fewshot_field = "{fewshot}" in text and "fewshot" not in columns
        # Without rows there are no columns, and nothing to ask.
        optional = frozenset({"fewshot"})
        if self._columns:
            template = PromptTemplate(text, columns, self.name, optional)
        else:
            template = PromptTemplate("", set[str](), self.name, optional)
        target = definition.target_field
        explicit = target != "target" or definition.score is None
        if self._columns and explicit and target not in self._columns:
            available = sorted(self._columns)
            advice = "set target_field to the column of the right answer"
            raise UsageError(
                f"{self.name}: the dataset has no column {target!r} (target_field); "
                f"it has {', '.join(available)}",
                hint=did_you_mean(target, available, advice),
            )
        carried = template.columns | {target, *definition.carried}
        self._shown = frozenset(carried - {"category", "fewshot"})
        return template

    def _open_fewshot(self, count: int) -> FewShot:
        definition = self.definition
        source: DatasetSource | DatasetRef | None = definition.fewshot_dataset
        if source is None and definition.fewshot_split and isinstance(definition.dataset, str):
            located = self._located(definition.dataset)
            ref = DatasetRef.parse(located) if isinstance(located, str) else located
            source = DatasetRef(ref.repo, ref.config).with_split(definition.fewshot_split)
        if source is None:
            hint = "remove fewshot, or give @benchmark a fewshot_split or fewshot_dataset"
            raise UsageError(
                f"benchmark {self.name!r} has no split to take {count} few-shot examples from",
                hint=hint,
            )
        raw = as_rows(source()) if callable(source) else open_rows(source, definition.folder)
        rows = self._prepared(raw, "42:fewshot")
        return FewShot(
            rows,
            count,
            definition.fewshot_by,
            render=self._example_format(),
            in_order=definition.fewshot_in_order,
        )

    def _example_format(self) -> Callable[[JsonDict], str]:
        form = self.definition.fewshot_format
        if callable(form):
            return form
        if form is not None:
            return PromptTemplate(form, self._columns, f"{self.name}: fewshot_format").render
        template = self._template
        target = self.definition.target_field
        if template is None:
            return str
        return lambda row: f"{template.render({**row, 'fewshot': ''})}\n{row.get(target, '')}"


def _positional_count(function: Callable[..., Any]) -> int:
    """How many of (row, index, random numbers) a ``prepare_row`` takes; all three with ``*args``."""
    count = 0
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return 3
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            count += 1
    return count


def _takes(function: Callable[..., Any], name: str) -> bool:
    return name in inspect.signature(function).parameters
