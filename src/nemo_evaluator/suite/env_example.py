"""Lists the variables that a config needs, as an ``.env`` file to fill in."""

import re
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.config.compose import compose_config
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.registry import as_uri, environment_class

_REFERENCE: Final = re.compile(r"(?<!\$)\$\{(\w+)(:-)?")
_HUB_TOKEN: Final = "HF_TOKEN"


def env_example(path: Path) -> str:
    """Return one line per variable; variables with a default are commented out.

    HF_TOKEN is added if a dataset is gated.

    Args:
        path: The config.
    """
    data = compose_config(path)
    references = _REFERENCE.findall(dumps(data).decode())
    names = dict.fromkeys(name for name, _ in references)
    required = {name for name, default in references if not default}
    gated = _gated_benchmarks(data)
    lines = [f"# Variables of {path.name}. Fill them in; keep this file out of version control."]
    if gated and _HUB_TOKEN not in required:
        required.add(_HUB_TOKEN)
        lines.append(f"# Gated dataset of {', '.join(gated)}: accept its terms on the hub first.")
        lines.append(f"{_HUB_TOKEN}=")
        names.pop(_HUB_TOKEN, None)
    for name in names:
        if name in required:
            lines.append(f"{name}=")
    for name in names:
        if name not in required:
            lines.append(f"# {name}=")
    return "\n".join(lines) + "\n"


def _gated_benchmarks(data: JsonDict) -> list[str]:
    """Return the names of a config's benchmarks whose dataset is gated."""
    gated: list[str] = []
    for benchmark in data.get("benchmarks", ()):
        if isinstance(benchmark, dict) and _gated(benchmark.get("name")):
            gated.append(benchmark["name"])
    return gated


def _gated(name: Any) -> bool:
    if not isinstance(name, str) or "://" in as_uri(name) or ".py" in name:
        return False
    try:
        return "gated" in environment_class(name).facts().needs
    except NelError:
        return False
