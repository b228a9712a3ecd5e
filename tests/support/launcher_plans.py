"""What ``nel run`` would send for a task of the launcher's catalogue, as plain data to compare and to review."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nemo_evaluator.config import load_mapping
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher.catalogue import Task
from nemo_evaluator.launcher.compose import compose_launcher
from nemo_evaluator.launcher.routes import Preference
from nemo_evaluator.launcher.translate import translate

_PATHS = {"chat_completions": "chat/completions", "completions": "completions"}
_CONFIG = """
defaults: [{execution: local}, {deployment: none}, _self_]
execution: {output_dir: results}
target: {api_endpoint: {url: "http://localhost:8000/v1", model_id: m}}
evaluation: {tasks: []}
"""
# The command of a harness in its container.
COMMAND = "run_eval --run_config /config/run_config.yaml"


@cache
def _composed() -> JsonDict:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(_CONFIG)
        return compose_launcher(file)


def plan_of(
    task: Task, prefer: Preference = "same", params: JsonDict | None = None
) -> dict[str, Any]:
    """Translate a config with one task.

    Args:
        task: The task.
        prefer: How to run it if there are several ways.
        params: Parameters of the user.

    Returns:
        The URL, the generation settings, few-shot examples, repeats, and for a container its image and command; a
        task that nel cannot run has only the reason.
    """
    entry: JsonDict = {"name": task.full_name}
    if params is not None:
        entry["nemo_evaluator_config"] = {"config": {"params": params}}
    config = {**_composed(), "evaluation": {"tasks": [entry]}}
    translated = translate(config, prefer=prefer)
    refusals = translated.of("refused")
    if refusals:
        return {"task": task.name, "refused": "; ".join(refusal.detail for refusal in refusals)}
    load_mapping(translated.config)
    (bench,) = translated.config["benchmarks"]
    service = translated.config["services"][bench["solver"]["service"]]
    plan: JsonDict = {
        "task": task.name,
        "benchmark": bench["name"],
        "url": f"{service['url']}/{_PATHS[service['protocol']]}",
    }
    for key in ("fewshot", "repeats", "max_concurrent", "params", "replaces"):
        if key in bench:
            plan[key] = bench[key]
    if "generation" in bench["solver"]:
        plan["generation"] = bench["solver"]["generation"]
    if "retry" in service:
        plan["max_retries"] = service["retry"]["max_retries"]
    if bench["solver"]["type"] == "container":
        plan["image"] = bench["name"].partition("://")[2].rpartition("#")[0]
        plan["command"] = COMMAND
    return plan
