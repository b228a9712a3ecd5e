"""Build a config in the launcher's dialect from the answers to the five questions."""

from typing import Any

import yaml

from nemo_evaluator.assistant.answers import SetupAnswers
from nemo_evaluator.assistant.recipes import read_data, recipes, render
from nemo_evaluator.core.errors import UsageError

_FILE = "launcher_bundles.yaml"


def launcher_config(answers: SetupAnswers, bundles: list[str]) -> str:
    """Build the text of a config of the launcher; values that only the user knows stay ``???``.

    Args:
        answers: The answers to the five questions.
        bundles: The bundles and recipes of the answers, by their own names.

    Raises:
        UsageError: If a recipe or bundle has no task of the launcher for this type of model.
    """
    run_as = answers.run_as
    entries: list[str] = []
    for bundle in bundles:
        entries.extend(_entries(bundle, run_as))
    entries = list(dict.fromkeys(entries))
    return render(
        "launcher.yaml.j2",
        title=f"{answers.model_type} model: {', '.join(answers.benchmarks)}",
        execution=answers.execution,
        deployment=answers.deployment,
        export=answers.export,
        model_type=answers.model_type,
        benchmarks=entries,
        variables=_variables(answers.deployment, entries),
        **answers.lengths,
    )


def _entries(bundle: str, run_as: str) -> list[str]:
    """Return the entries of ``tasks:`` that a bundle or recipe stands for."""
    data = read_data(_FILE)
    if bundle in recipes():
        entry = data["recipes"].get(bundle)
        if entry is None:
            raise UsageError(
                f"the launcher has no task for the recipe {bundle}",
                hint="nel runs it with --format nel",
            )
        return [entry]
    tasks = data[bundle].get(run_as, data[bundle]["chat"])
    if not tasks:
        raise UsageError(f"{bundle} has no benchmarks for a {run_as} model")
    return [task if task.startswith("-") else f"- name: {task}" for task in tasks]


def _variables(deployment: str, entries: list[str]) -> list[str]:
    """Return the variables that the tasks or the model server need from the environment."""
    task_names: set[str] = set()
    for entry in entries:
        task: dict[str, Any] = yaml.safe_load(entry)[0]
        task_names.add(str(task["name"]))
    variables: list[str] = []
    for variable, needed_by in read_data(_FILE)["variables"].items():
        is_needed = not task_names.isdisjoint(needed_by)
        # The server downloads gated models.
        loads_model = variable == "HF_TOKEN" and deployment in ("vllm", "sglang")
        if is_needed or loads_model:
            variables.append(variable)
    return variables
