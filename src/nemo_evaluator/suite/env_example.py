"""Lists the variables that a config needs, as an ``.env`` file to fill in."""

import re
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.config.compose import compose_config
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.environments.registry import as_uri, environment_class

_REFERENCE: Final = re.compile(r"(?<!\$)\$\{(\w+)(:-)?")


def env_example(path: Path) -> str:
    """Return one line per variable; variables with a default are commented out.

    HF_TOKEN is added if a dataset is gated.
    """
    data = compose_config(path)
    references = _REFERENCE.findall(dumps(data).decode())
    needed = dict.fromkeys(name for name, default in references if not default)
    gated: list[Any] = []
    for benchmark in data.get("benchmarks", ()):
        if isinstance(benchmark, dict) and _gated(benchmark.get("name")):
            gated.append(benchmark["name"])
    lines = [f"# Variables of {path.name}. Fill them in; keep this file out of version control."]
    if gated and "HF_TOKEN" not in needed:
        lines += [
            f"# Gated dataset of {', '.join(gated)}: accept its terms on the hub first.",
            "HF_TOKEN=",
        ]
    lines += [f"{name}=" for name in needed]
    optional = dict.fromkeys(name for name, default in references if default and name not in needed)
    lines += [f"# {name}=" for name in optional if not (gated and name == "HF_TOKEN")]
    return "\n".join(lines) + "\n"


def _gated(name: Any) -> bool:
    if not isinstance(name, str) or "://" in as_uri(name) or ".py" in name:
        return False
    try:
        return "gated" in environment_class(name).facts().needs
    except NelError:
        return False
