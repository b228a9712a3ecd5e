"""The whole config: services, sandboxes, benchmarks, cluster, output."""

import ast
from collections.abc import Iterable
from pathlib import PurePath
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.benchmarks import BenchmarkConfig, BudgetConfig
from nemo_evaluator.config.cluster_base import ClusterConfig
from nemo_evaluator.config.cross_check import cross_check, with_solver
from nemo_evaluator.config.fields import Model, Positive
from nemo_evaluator.config.groups import CLUSTERS
from nemo_evaluator.config.kinds import default_kind
from nemo_evaluator.config.output import OutputConfig
from nemo_evaluator.config.sandbox_base import SandboxConfig
from nemo_evaluator.config.service_base import ModelService, ServiceConfig
from nemo_evaluator.config.shared_service import share_servers
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.registry import find_file

_DECORATORS = ("benchmark", "register")


def declared_name(file: str) -> str | None:
    """Return the benchmark name that a file declares with ``@benchmark(name=...)`` or ``@register(...)``.

    If a file declares several, the one named like the file counts, as it does when the benchmark is opened.

    Returns:
        The name; None if the file is unreadable, or no name is unique or matches.
    """
    try:
        path = find_file(file)
        tree = ast.parse(path.read_bytes())
    except (UsageError, OSError, SyntaxError, ValueError, RecursionError):
        # Opening the benchmark reports the reason.
        return None
    names: list[str] = []
    for node in ast.walk(tree):
        for name in _names(node):
            names.append(name)
    if len(names) == 1:
        return names[0]
    stem = path.stem.lower().replace("-", "_")
    return next((name for name in names if name.lower() == stem), None)


def _names(node: ast.AST) -> list[str]:
    """Return the names in the ``benchmark`` and ``register`` decorators of a function or class."""
    names: list[str] = []
    for decorator in getattr(node, "decorator_list", ()):
        if isinstance(decorator, ast.Call) and _called_name(decorator) in _DECORATORS:
            name = _name_argument(decorator)
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                names.append(name.value)
    return names


def _called_name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return getattr(call.func, "id", "")


def _name_argument(call: ast.Call) -> ast.expr | None:
    """Return the argument ``name``, or else the first one."""
    for keyword in call.keywords:
        if keyword.arg == "name":
            return keyword.value
    if call.args:
        return call.args[0]
    return None


class DatasetsConfig(Model):
    """Sources of datasets."""

    mirror: str | None = Field(
        None, description="Folder of a dataset mirror; also `NEL_DATA_MIRROR`."
    )
    offline: bool = Field(False, description="Use no network.")
    lock: str | None = Field(
        None,
        description="Lock file of revisions and hashes; null: ./nel-data.lock.json, or if missing one in the cache.",
    )
    frozen: bool = Field(False, description="Refuse a dataset that differs from the lock.")


RESERVED_NAMES = ("default", "none", "")


def _service_name(name: str) -> str:
    if name in RESERVED_NAMES:
        raise PydanticCustomError(
            "reserved_name", "{name} is reserved; choose another name", {"name": repr(name)}
        )
    return name


class SuiteConfig(Model):
    """How the benchmarks of a config are run together."""

    parallel_benchmarks: Positive = Field(
        1,
        description="Number of benchmarks to run at the same time. They share each service's `max_concurrent`.",
    )


class EvalConfig(Model):
    """A config as the rest of the program sees it. Make one with ``load_config`` or ``parse_eval_config``."""

    services: dict[Annotated[str, AfterValidator(_service_name)], ServiceConfig] = Field(
        description="Models, judges, Gym servers, by name."
    )
    sandboxes: dict[str, SandboxConfig] = Field(
        default_factory=dict, description="Sandboxes that benchmarks name."
    )
    benchmarks: list[BenchmarkConfig] = Field(min_length=1, description="What to evaluate.")
    cluster: ClusterConfig = Field(
        default_factory=default_kind(CLUSTERS, "local"), description="Where the run happens."
    )
    output: OutputConfig = Field(
        default_factory=OutputConfig, description="Folder, reports and exports of the run."
    )
    datasets: DatasetsConfig = Field(
        default_factory=DatasetsConfig, description="Where datasets come from."
    )
    budget: BudgetConfig | None = Field(None, description="Limits of the whole run.")
    suite: SuiteConfig = Field(
        default_factory=SuiteConfig, description="How the benchmarks are run together."
    )

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, data: Any) -> Any:
        """Replace the names of sandboxes with their blocks, and fill in solvers that are left out."""
        benchmarks = as_dict(data).get("benchmarks")
        if not isinstance(benchmarks, list):
            return data
        named_sandboxes = as_dict(data.get("sandboxes"))
        return {
            **data,
            "benchmarks": [
                _with_sandbox(with_solver(entry, data), named_sandboxes) for entry in benchmarks
            ],
        }

    @model_validator(mode="after")
    def _side_by_side(self) -> Self:
        """One queue of a Ray cluster serves one benchmark at a time."""
        if self.suite.parallel_benchmarks > 1 and self.cluster.type == "ray":
            raise PydanticCustomError(
                "one_queue", "suite.parallel_benchmarks: cluster type ray runs one at a time"
            )
        return self

    @model_validator(mode="after")
    def _unique_ids(self) -> Self:
        """Every benchmark gets a key of its own: the name, numbered if it occurs twice."""
        used_ids: set[str] = set()
        for benchmark in self.benchmarks:
            if benchmark.id in used_ids:
                raise PydanticCustomError(
                    "same_id", "two benchmarks have the id {id}", {"id": repr(benchmark.id)}
                )
            if benchmark.id is not None:
                used_ids.add(benchmark.id)
        for benchmark in self.benchmarks:
            if benchmark.id is None:
                benchmark.id = _free_id(benchmark.name, used_ids)
                used_ids.add(benchmark.id)
        return self

    @model_validator(mode="after")
    def _references(self) -> Self:
        findings = cross_check(self.model_dump())
        if findings:
            raise PydanticCustomError(
                "references", "{text}", {"text": "; ".join(map(str, findings))}
            )
        share_servers(self.services)
        return self

    def base_url(self, name: str) -> str | None:
        """Where a service answers, as far as the config knows."""
        return self.services[name].base_url()

    def model_id(self, name: str) -> str:
        """The name of the model in requests to a service."""
        return self.services[name].model_id(name)

    def only(self, names: Iterable[str]) -> Self:
        """The config with these services alone, and those that they depend on."""
        needed = set[str]()
        queue = list(names)
        while queue:
            name = queue.pop()
            if name in self.services and name not in needed:
                needed.add(name)
                queue += self.services[name].depends_on
        return self.model_copy(
            update={"services": {key: self.services[key] for key in self.services if key in needed}}
        )

    def model_services(self) -> dict[str, ModelService]:
        """The services that serve a model."""
        services: dict[str, ModelService] = {}
        for name, service in self.services.items():
            if isinstance(service, ModelService):
                services[name] = service
        return services

    def api_services(self) -> list[str]:
        """The names of the model services that nel does not start itself: they can be asked before a run."""
        return [name for name, service in self.model_services().items() if service.type == "api"]


def _with_sandbox(benchmark: Any, named: dict[str, Any]) -> Any:
    """Replace the name of a sandbox in a benchmark entry with the sandbox's settings."""
    name = as_dict(benchmark).get("sandbox")
    if isinstance(name, str):
        block = named.get(name)
    else:
        block = None
    return benchmark if block is None else {**benchmark, "sandbox": block}


def _free_id(name: str, taken: set[str]) -> str:
    """Return an unused id for a benchmark: its name, numbered if it is taken."""
    file, _, member = (
        name.rpartition(".py:") if ".py:" in name else (name.removesuffix(".py"), "", "")
    )
    if name.endswith(".py"):
        member = declared_name(name) or PurePath(file).name
    base = safe_name(member or file)[:100]
    number = 1
    candidate = base
    while candidate in taken:
        number += 1
        candidate = f"{base}-{number}"
    return candidate
