"""The environment behind ``@benchmark``: rows become prompts, and a scorer scores the answers."""

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
from nemo_evaluator.environments._row_checks import (
    LOOKED_AT,
    check_mapping,
    check_values,
    target_text,
    uses_target,
)
from nemo_evaluator.environments._verdict import ScorerRunner, fingerprint
from nemo_evaluator.environments.base import EnvironmentFacts, EvalEnvironment
from nemo_evaluator.environments.clusters import checked_column, cluster_label
from nemo_evaluator.environments.definition import (
    BenchmarkDefinition,
    DatasetSource,
    check_requirements,
)
from nemo_evaluator.environments.prompt import FewShot, PromptTemplate, template_text
from nemo_evaluator.sandbox.base import ImageBuildRequest, Sandbox
from nemo_evaluator.scoring.types import ScorerInput

_DATASET_PARAMS: Final = ("dataset", "split", "revision")
DEFAULT_PROTOCOL: Final = "default"


class BenchmarkEnvironment(EvalEnvironment):
    """An open benchmark; it reads and prepares rows on request, and keeps none in memory.

    ``prepare_row`` gets ``random.Random(f"42:{idx}")`` for row ``idx``, so a prepared row depends only on its number,
    and not on which rows were read before.

    Args:
        num_examples: The number of problems, from the first; None for all.
        num_fewshot: The number of few-shot examples; None for the benchmark's own number.
        **params: The benchmark's parameters.

    Raises:
        UsageError: A parameter is unknown, or the definition does not fit the dataset.
    """

    definition: BenchmarkDefinition

    def __init__(
        self, num_examples: int | None = None, num_fewshot: int | None = None, **params: Any
    ) -> None:
        self.name = self.definition.name
        self.params = self._checked(params)
        definition = self.definition = self._by_protocol()
        self.cluster = definition.cluster
        check_requirements(definition.requirements, definition.name)
        self._config = {**definition.extra, **self.params}
        with one_write():
            source_rows = self._open(definition.dataset, num_examples)
        check_mapping(self.name, definition.field_mapping, source_rows)
        self._dataset: Rows = self._prepared(source_rows[:num_examples], "42")
        if definition.score:
            self._runner: ScorerRunner | None = ScorerRunner(definition.score, self.name)
        else:
            self._runner = None
        self._columns = self._look()
        if definition.seed_fn is None:
            self._template: PromptTemplate | None = self._compile()
        else:
            self._template = None
        fewshot_count = definition.fewshot if num_fewshot is None else num_fewshot
        if fewshot_count > 0:
            self._fewshot: FewShot | None = self._open_fewshot(fewshot_count)
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
        """Return the facts of the definition; a scorer that mentions ``needs_judge`` or ``fallback`` adds to them."""
        definition = cls.definition
        code_names = code_words(definition.score)
        needs = set(definition.info.needs)
        if "needs_judge" in code_names:
            needs.add("judge")
        return EnvironmentFacts(
            needs=frozenset(needs),
            endpoint_type=definition.endpoint_type,
            has_fallback=definition.info.judge_optional or "fallback" in code_names,
            summary=definition.summary,
            headline=definition.info.headline,
        )

    def cluster_by(self, column: object) -> None:
        """Use the cluster that the user names with ``params: {cluster: ...}``, a column of the prepared rows."""
        self.chosen_cluster = checked_column(column, sorted(self._columns), self.name)
        self.cluster = self.chosen_cluster

    def add_cluster(self, idx: int, problem: SeedResult) -> None:
        """Do nothing: `seed` sets the cluster, because it has the row."""

    def expect(self, problems: Sequence[int]) -> None:
        """Pass the announcement on to the dataset, which may read these rows together."""
        if isinstance(self._dataset, Rows):
            self._dataset.expect(problems)

    async def seed(self, idx: int) -> SeedResult:
        """Build a problem from a row, with the prompt template or with ``seed_fn``."""
        row = self._dataset[idx]
        cluster = cluster_label(self.cluster, row)
        if self._template is None:
            seeded_problem = await self._seed_by_function(row, idx)
            seeded_problem.cluster = seeded_problem.cluster or cluster
            return seeded_problem
        prompt = self._rendered(self._template, row)
        problem = SeedResult(
            prompt=prompt,
            expected_answer=target_text(row.get(self.definition.target_field)),
            metadata={"source": "byob", "benchmark": self.name, **row},
            system=self.definition.system_prompt,
            shown=frozenset() if self.full_rows else self._shown,
            cluster=cluster,
        )
        problem.messages = problem.plain_messages
        return problem

    def _rendered(self, template: PromptTemplate, row: JsonDict) -> str:
        """Return the prompt of a row, with the few-shot examples where the template has them, else before it.

        A column ``fewshot`` of the dataset is removed from the row, so that it does not appear among the results.
        """
        if self._fewshot is None and not self._has_fewshot_field:
            prompt = template.render(row)
            row.pop("fewshot", None)
            return prompt
        examples = ""
        if self._fewshot is not None:
            columns = {name: value for name, value in row.items() if name != "fewshot"}
            examples = self._fewshot.text(columns)
        row["fewshot"] = examples
        prompt = template.render(row)
        row.pop("fewshot")
        if self._has_fewshot_field:
            return prompt
        return examples + prompt

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **metadata: Any
    ) -> VerifyResult:
        """Score an answer, given its expected answer and metadata."""
        return await self._score(
            ScorerInput(response, expected, metadata, config=self._config, sandbox=sandbox)
        )

    async def verify_answer(
        self, response: str, seed: SeedResult, sandbox: Sandbox | None = None
    ) -> VerifyResult:
        """Score an answer to a problem; the scorer also gets the trajectory."""
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
        """Return the identity of the scorer, the judge functions and their settings."""
        definition = self.definition
        hooks = (definition.score, definition.judge_prompt, definition.parse_judge)
        settings = {"name": self.name, "config": self._config}
        return fingerprint([hook for hook in hooks if hook is not None], settings)

    @property
    def compares_target(self) -> bool:
        """Whether scoring compares answers with the expected answer."""
        return uses_target(self.definition)

    async def sandbox_specs(self) -> list[SandboxSpec] | None:
        """Return the distinct sandboxes of all problems, if a ``seed_fn`` may set any."""
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
        """Return what the benchmark's image builder requests; None without one.

        Raises:
            TypeError: The image builder returned another type.
        """
        builder = self.definition.image_builder
        if builder is None:
            return None
        request = builder(self._dataset)
        if inspect.isawaitable(request):
            request = await request
        if not isinstance(request, ImageBuildRequest):
            type_name = type(request).__name__
            raise TypeError(
                f"the image builder of {self.name} returned {type_name}, not ImageBuildRequest"
            )
        return [request]

    async def close(self) -> None:
        """Close the dataset and the scorer's threads."""
        self._dataset.close()
        if self._runner is not None:
            self._runner.close()

    async def _score(self, sample: ScorerInput) -> VerifyResult:
        """Run the scorer; without one, compare the answer with the target, ignoring case."""
        if self._runner is not None:
            return await self._runner.run(sample)
        response = sample.response.strip()
        target = str(sample.target).strip()
        correct = response.lower() == target.lower()
        return VerifyResult(
            float(correct), response, {"method": "default_exact_match", "correct": correct}
        )

    async def _seed_by_function(self, row: JsonDict, idx: int) -> SeedResult:
        """Build a problem with ``seed_fn``, and fill in the system prompt and the messages."""
        function = self.definition.seed_fn
        assert function is not None
        examples: dict[str, list[JsonDict]] = {}
        if self._seed_takes_fewshot:
            examples["fewshot"] = self._fewshot.rows(row) if self._fewshot else []
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
        """Return the parameters with their defaults; refuse unknown ones, and set those of the dataset apart."""
        declared = self.definition.params
        dataset_keys = () if callable(self.definition.dataset) else _DATASET_PARAMS
        accepted = [*declared, *dataset_keys]
        for key in params:
            if key in accepted:
                continue
            accepted_names = ", ".join(accepted) or "none"
            raise UsageError(
                f"benchmark {self.definition.name!r} has no parameter {key!r}",
                hint=did_you_mean(key, accepted, also=f"accepted: {accepted_names}"),
            )
        dataset_params: dict[str, Any] = {}
        for key in dataset_keys:
            if key in params and key not in declared:
                dataset_params[key] = params.pop(key)
        self._dataset_params = dataset_params
        return {**declared, **params}

    def _by_protocol(self) -> BenchmarkDefinition:
        """Return the definition with the changes of the chosen protocol."""
        definition = self.definition
        name = str(self.params.get("protocol", DEFAULT_PROTOCOL))
        if not definition.protocols or name == DEFAULT_PROTOCOL:
            return definition
        protocol_names = [DEFAULT_PROTOCOL, *definition.protocols]
        if name not in protocol_names:
            hint = did_you_mean(name, protocol_names, also=f"it has: {', '.join(protocol_names)}")
            raise UsageError(f"benchmark {definition.name!r} has no protocol {name!r}", hint=hint)
        return replace(definition, **definition.protocols[name])

    def _open(self, dataset: DatasetSource, num_examples: int | None) -> Rows:
        """Open the dataset; a dataset function gets those parameters that it declares."""
        if not callable(dataset):
            return open_rows(self._located(str(dataset)), self.definition.folder)
        available_arguments = {**self.params, "num_examples": num_examples}
        arguments = {
            key: value for key, value in available_arguments.items() if _takes(dataset, key)
        }
        return as_rows(dataset(**arguments), f"the dataset function of {self.name}")

    def _located(self, dataset: str) -> str | DatasetRef:
        """Return the dataset's name with the user's changes of dataset, split and revision."""
        changes = self._dataset_params
        dataset = str(changes.get("dataset", dataset))
        if "split" not in changes and "revision" not in changes:
            return dataset
        ref = DatasetRef.parse(dataset)
        if "split" in changes:
            ref = ref.with_split(str(changes["split"]))
        return replace(ref, revision=changes.get("revision", ref.revision))

    def _prepared(self, rows: Rows, salt: str) -> Rows:
        """Apply ``field_mapping`` and ``prepare_row`` to rows when they are read."""
        mapping = self.definition.field_mapping
        prepare_row = self.definition.prepare_row
        if not mapping and prepare_row is None:
            return rows
        arity = _positional_count(prepare_row) if prepare_row is not None else 0

        def change(row: JsonDict, idx: int) -> JsonDict:
            """Return the prepared row."""
            for source, name in mapping.items():
                if source in row:
                    row[name] = row[source]
            if prepare_row is None:
                return row
            if arity >= 3:
                generator = random.Random(f"{salt}:{idx}")
                prepared = prepare_row(row, idx, generator)
            elif arity == 2:
                prepared = prepare_row(row, idx)
            elif arity == 1:
                prepared = prepare_row(row)
            else:
                prepared = prepare_row()
            if not isinstance(prepared, dict):
                raise TypeError(f"prepare_row returned {type(prepared).__name__}, not a dict")
            return prepared

        return MappedRows(rows, change)

    def _look(self) -> set[str]:
        """Return the columns of the first rows; a row that cannot be prepared stops the benchmark before the first
        request.
        """
        columns: set[str] = set()
        for idx in range(min(LOOKED_AT, len(self._dataset))):
            try:
                with boundary(Cause.SEED):
                    columns.update(self._dataset[idx])
            except NelError as error:
                cause = error.__cause__
                suggestion = ""
                if isinstance(cause, KeyError):
                    suggestion = f"; is {cause} a column of the dataset?"
                raise UsageError(
                    f"{self.name}: row {idx} of {self._dataset.source} cannot be prepared: "
                    f"{error.message}{suggestion}",
                    hint=error.hint,
                ) from error
        return columns

    def _compile(self) -> PromptTemplate:
        """Compile the prompt template, and check that the target column exists."""
        definition = self.definition
        if not definition.prompt:
            raise UsageError(
                f"benchmark {self.name!r} has no prompt",
                hint="give @benchmark a prompt, or a seed_fn",
            )
        template_source = template_text(definition.prompt, definition.folder, self.name)
        columns = self._columns or {definition.target_field}
        self._has_fewshot_field = "{fewshot}" in template_source and "fewshot" not in columns
        # Without rows there are no columns to check, and no prompts to render.
        optional = frozenset({"fewshot"})
        if self._columns:
            template = PromptTemplate(template_source, columns, self.name, optional)
        else:
            template = PromptTemplate("", set[str](), self.name, optional)
        target = definition.target_field
        is_missing = bool(self._columns) and target not in self._columns
        if is_missing and (target != "target" or uses_target(definition)):
            available = sorted(self._columns)
            advice = "set target_field to the column of the right answer"
            raise UsageError(
                f"{self.name}: the dataset has no column {target!r} (target_field); "
                f"it has {', '.join(available)}",
                hint=did_you_mean(target, available, advice),
            )
        self.warnings = check_values(definition, template.columns - {"fewshot"}, self._dataset)
        omittable_columns = template.columns | {target, *definition.carried}
        self._shown = frozenset(omittable_columns - {"category", "fewshot"})
        return template

    def _open_fewshot(self, count: int) -> FewShot:
        """Open the rows for few-shot examples: ``fewshot_dataset``, else the ``fewshot_split`` of the dataset."""
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
        source_rows = (
            as_rows(source()) if callable(source) else open_rows(source, definition.folder)
        )
        rows = self._prepared(source_rows, "42:fewshot")
        return FewShot(
            rows,
            count,
            definition.fewshot_by,
            render=self._example_format(),
            in_order=definition.fewshot_in_order,
        )

    def _example_format(self) -> Callable[[JsonDict], str]:
        """Return the function that formats an example: ``fewshot_format``, else the prompt followed by the target."""
        example_format = self.definition.fewshot_format
        if callable(example_format):
            return example_format
        if example_format is not None:
            return PromptTemplate(
                example_format, self._columns, f"{self.name}: fewshot_format"
            ).render
        template = self._template
        target = self.definition.target_field
        if template is None:
            return str
        return lambda row: (
            f"{template.render({**row, 'fewshot': ''})}\n{target_text(row.get(target))}"
        )


def _positional_count(function: Callable[..., Any]) -> int:
    """Return how many of (row, index, random generator) a ``prepare_row`` takes; all three with ``*args``."""
    count = 0
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return 3
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            count += 1
    return count


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function has a parameter of that name."""
    return name in inspect.signature(function).parameters
