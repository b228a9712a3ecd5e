"""A benchmark of a config: its problems, solver, repeats and limits."""

from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from nemo_evaluator.config.fields import (
    STEP_TIMEOUT,
    Above0,
    Confidence,
    Count,
    HashPrefix,
    Int,
    Later,
    Model,
    Name,
    NonNegative,
    NotBool,
    Positive,
    Share,
)
from nemo_evaluator.config.groups import SANDBOXES, SCHEMES
from nemo_evaluator.config.kind_settings import check_settings
from nemo_evaluator.config.kinds import (
    KindOf,
    check_name,
    default_kind,
    with_settings,
)
from nemo_evaluator.config.sandbox_base import SandboxBase
from nemo_evaluator.config.scoring import ScoringConfig
from nemo_evaluator.config.solver_base import SolverConfig
from nemo_evaluator.core.files import safe_name


class BudgetConfig(Model):
    """Limits of a run or a benchmark; reaching one ends it cleanly, and it can be resumed."""

    usd: Above0 | None = Field(
        None, description="Maximum cost in USD, by the `price` of the services."
    )
    tokens: Positive | None = Field(
        None, description="Maximum number of tokens, prompt and completion together."
    )
    requests: Positive | None = Field(
        None, description="Maximum number of requests to models and judges."
    )
    minutes: Above0 | None = Field(None, description="Maximum wall-clock minutes.")


class StepLimits(Model):
    """Limits of one step (one problem, one repeat); at a limit, the answer so far is scored."""

    tokens: Positive | None = Field(
        None, description="Maximum number of tokens over all calls, prompt and completion together."
    )
    turns: Positive | None = Field(None, description="Maximum number of model calls.")
    seconds: Above0 | None = Field(None, description="Maximum wall-clock seconds of solving.")
    usd: Above0 | None = Field(
        None, description="Maximum cost in USD, by the `price` of the service."
    )


class StopWhen(Model):
    """Stop a benchmark early once its result is decided; not for shards, nor with `shuffle_seed: null`."""

    interval_width: Annotated[float, Field(gt=0, le=1), NotBool] | None = Field(
        None,
        description="Stop when the confidence interval of the headline score is at most this wide.",
    )
    decided_against: str | None = Field(
        None,
        description="Folder of a valid baseline run; stop when it is decided whether the drop is within `max_drop`.",
    )
    max_drop: NonNegative = Field(
        0.015, description="Largest acceptable drop, for `decided_against`."
    )
    confidence: Confidence = Field(0.95, description="Confidence level of the rule's intervals.")
    min_problems: Positive = Field(
        30, description="Never stop before this many problems have all their repeats scored."
    )

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        if self.interval_width is None and self.decided_against is None:
            raise PydanticCustomError("no_rule", "give interval_width, decided_against, or both")
        return self


def _inline_sandbox(value: Any) -> Any:
    # Names of top-level sandboxes have been replaced before, so a remaining string is an unknown name.
    if value == "none":
        return {"type": "none"}
    if isinstance(value, str):
        raise PydanticCustomError(
            "unknown_sandbox", "no sandbox is called {name}", {"name": repr(value)}
        )
    return value


def _off(value: Any) -> Any:
    # YAML reads a bare `off` as false.
    return "off" if value is False else value


def _id(value: str) -> str:
    if not value or safe_name(value) != value:
        raise PydanticCustomError(
            "bad_id", "an id has letters, digits, dots, hyphens and underscores only"
        )
    return value


class BenchmarkConfig(Model):
    """One evaluation of a config."""

    name: Name = Field(
        description="A built-in benchmark, a URI such as `lm-eval://mmlu`, or `file.py[:name]`."
    )
    id: Annotated[str, AfterValidator(_id)] | None = Field(
        None,
        description="Unique key and folder of the entry; null: the name, numbered if it occurs twice.",
    )
    replaces: Name | None = Field(
        None,
        description="Task of another harness that this benchmark runs in place of, such as `simple_evals.mmlu`; "
        "the plan, the bundle and the reports say so.",
    )
    solver: SolverConfig = Field(
        description="What answers the problems; default: `simple`, with the only model among the services."
    )
    repeats: Positive = Field(1, description="Answers per problem.")
    max_problems: Positive | None = Field(
        None, description="Maximum number of problems; a random subset unless shuffling is off."
    )
    only: list[Count | HashPrefix] | None = Field(
        None,
        min_length=1,
        description="Run only these problems: indices in the dataset, or beginnings of `problem_hash`.",
    )
    max_concurrent: Positive = Field(32, description="Maximum concurrent steps.")
    fewshot: Count | None = Field(None, description="Number of worked examples in the prompt.")
    context_window: Later[Positive] = Field(
        None, description="Context window of the model, in tokens, for agents."
    )
    timeout: Above0 = Field(
        STEP_TIMEOUT, description="Timeout of one step (one problem, one repeat), in seconds."
    )
    skip_failed: bool = Field(
        False,
        description="Continue when the solver raises or all agents fail, instead of stopping.",
    )
    max_system_retries: Positive = Field(
        3, description="Maximum attempts at one step when the harness fails."
    )
    instruction_template: Annotated[str, BeforeValidator(_off)] | None = Field(
        None,
        description="Jinja template that rewrites the prompt: a file, a packaged one, or `off`.",
    )
    verifier: str | None = Field(
        None, description="Gym service that scores the answers instead of the benchmark."
    )
    shuffle_seed: Int | None = Field(
        42, description="Seed for shuffling; null keeps the order of the dataset."
    )
    sandbox: Annotated[
        SandboxBase, KindOf(SANDBOXES, named=True), BeforeValidator(_inline_sandbox)
    ] = Field(
        default_factory=default_kind(SANDBOXES, "none"),
        description="Sandbox: a block, or the name of one under `sandboxes`.",
    )
    scoring: ScoringConfig = Field(default_factory=ScoringConfig, description="Metrics.")
    params: dict[str, Any] = Field(default_factory=dict, description="Parameters of the benchmark.")
    min_coverage: Share = Field(
        0.95, description="Minimum share of scored steps; below it the run is INVALID."
    )
    budget: BudgetConfig | None = Field(None, description="Limits of this benchmark.")
    step_limits: StepLimits | None = Field(None, description="Limits of one step.")
    stop_when: StopWhen | None = Field(None, description="Rule for stopping early.")

    @property
    def key(self) -> str:
        """The id, or the name while no id was given."""
        return self.id or self.name

    @model_validator(mode="before")
    @classmethod
    def _container_sandbox(cls, data: Any) -> Any:
        """A harness container runs in docker, and reaches the model, unless the config says where else."""
        if not isinstance(data, dict) or data.get("sandbox") is not None:
            return data
        solver = data.get("solver")
        if isinstance(solver, dict) and solver.get("type") == "container":
            return {**data, "sandbox": {"type": "docker", "network": "bridge"}}
        return data

    @field_validator("name")
    @classmethod
    def _known_scheme(cls, name: str) -> str:
        if "://" in name:
            check_name(SCHEMES, name.partition("://")[0])
        return name

    @model_validator(mode="after")
    def _params_of_scheme(self) -> Self:
        scheme, uri, _ = self.name.partition("://")
        if uri and SCHEMES.get(scheme).missing is None:
            check_settings(SCHEMES, scheme, self.params, "params")
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        json_schema = with_settings(
            handler, schema, SCHEMES, word="name", settings="params", starts="://"
        )
        handler.resolve_ref_schema(json_schema)["required"].remove("solver")
        return json_schema

    @model_validator(mode="after")
    def _sandbox_needed(self) -> Self:
        reason = self.solver.needs_sandbox()
        if reason is not None and self.sandbox.type == "none":
            raise PydanticCustomError("sandbox_needed", "{why}", {"why": reason})
        if self.solver.owns_loop and self.name.startswith("container://"):
            uri = getattr(self.solver, "uri", None)
            if uri not in (None, self.name):
                raise PydanticCustomError(
                    "two_uris", "solver.uri and name are different containers; keep one"
                )
        return self
