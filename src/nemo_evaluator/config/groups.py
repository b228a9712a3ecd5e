"""The groups of kinds. Other packages declare kinds in files of their own, imported when a config uses them."""

from typing import Final

from nemo_evaluator.core.kinds import Kinds

SERVICES: Final = Kinds(
    "service type", group="nemo_evaluator.services", home="nemo_evaluator.services"
)
SANDBOXES: Final = Kinds(
    "sandbox type", group="nemo_evaluator.sandboxes", home="nemo_evaluator.sandbox"
)
SOLVERS: Final = Kinds("solver type", group="nemo_evaluator.solvers", home="nemo_evaluator.solvers")
METRICS: Final = Kinds(
    "metric type", group="nemo_evaluator.metrics", home="nemo_evaluator.scoring.metrics"
)
CLUSTERS: Final = Kinds(
    "cluster type", group="nemo_evaluator.executors", home="nemo_evaluator.executors"
)
SCHEMES: Final = Kinds(
    "scheme",
    group="nemo_evaluator.schemes",
    home="nemo_evaluator.environments.schemes",
    dashes=True,
    supplied=("uri", "num_examples", "num_fewshot"),
)
INTERCEPTORS: Final = Kinds(
    "interceptor",
    group="nemo_evaluator.interceptors",
    home="nemo_evaluator.adapters.interceptors",
    declares="Interceptor",
)
EXPORTERS: Final = Kinds(
    "exporter", group="nemo_evaluator.exporters", home="nemo_evaluator.exporters"
)
SCORERS: Final = Kinds("scorer", group="nemo_evaluator.scorers", home="nemo_evaluator.scoring")
