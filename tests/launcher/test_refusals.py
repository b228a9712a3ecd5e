"""What nel says about values that it cannot use: no traceback, no other tool's text, no silent change."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_evaluator.cli import init
from nemo_evaluator.core.errors import ConfigError, UsageError
from nemo_evaluator.launcher.compose import compose_launcher
from nemo_evaluator.launcher.table import Translated
from nemo_evaluator.launcher.translate import translate

_NONE = """
defaults: [{execution: local}, {deployment: none}, _self_]
execution: {output_dir: out}
target: {api_endpoint: {url: "http://127.0.0.1:9/v1/chat/completions", model_id: m}}
"""
_SLURM = """
defaults: [{execution: slurm/default}, {deployment: vllm}, _self_]
execution: {hostname: null, account: a, output_dir: /o}
deployment: {checkpoint_path: /m, served_model_name: m}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "c.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def translated(folder: Path, text: str) -> Translated:
    return translate(compose_launcher(written(folder, text)))


def refusals(draft: Translated) -> dict[str, str]:
    return {entry.field: entry.detail for entry in draft.of("refused")}


_TASK = "evaluation: {tasks: [{name: quickstart}]}\n"


@pytest.mark.parametrize("path", ["quickstart.a.b", "0.a.b", "quickstart.name.b"])
def test_a_removal_of_what_is_not_there_is_an_error(path: str, tmp_path: Path) -> None:
    file = written(tmp_path, _NONE + _TASK)
    with pytest.raises(UsageError, match="the task has no"):
        compose_launcher(file, [f"~evaluation.tasks.{path}"])


@pytest.mark.parametrize("option", ["lepton/default", "internal/slurm/x"])
def test_an_execution_that_nel_lacks_is_not_supported(option: str, tmp_path: Path) -> None:
    file = written(tmp_path, _NONE.replace("execution: local}", f"execution: {option}}}") + _TASK)
    with pytest.raises(ConfigError) as error:
        compose_launcher(file)
    (problem,) = error.value.problems
    assert (problem.path, problem.message) == (
        "defaults.execution",
        f"{option} is not supported",
    )
    assert problem.hint == "nel supports local, slurm/default"


def test_a_runtime_variable_under_another_name_says_why(tmp_path: Path) -> None:
    text = _NONE + 'env_vars: {A: "runtime:B", C: "runtime:C"}\n' + _TASK
    assert refusals(translated(tmp_path, text)) == {
        "env_vars.A": "nel cannot rename a variable of the runtime environment; call it B, or write host:B"
    }


@pytest.mark.parametrize(("kind", "outcome"), [("nim", "refused"), ("vllm", "warned")])
def test_a_server_without_an_image(kind: str, outcome: str, tmp_path: Path) -> None:
    text = _SLURM.replace("deployment: vllm}", f"deployment: {kind}}}") + _TASK
    text = text.replace("checkpoint_path: /m", "image: null, checkpoint_path: /m")
    draft = translated(tmp_path, text)
    outcomes = {entry.outcome for entry in draft.report if entry.field == "deployment.image"}
    assert outcome in outcomes


def test_two_missing_values_with_one_key_have_their_own_hints(tmp_path: Path) -> None:
    text = (
        _NONE.replace("model_id: m", "model_id: '???'  # the model\n   ")
        + "evaluation:\n  tasks:\n    - name: quickstart\n      nemo_evaluator_config:\n"
        "        config: {params: {extra: {judge: {\n          model_id: '???'  # the judge\n        }}}}\n"
    )
    with pytest.raises(ConfigError) as error:
        compose_launcher(written(tmp_path, text))
    hints = [str(problem.hint).partition(";")[0] for problem in error.value.problems]
    assert sorted(hints) == ["the judge", "the model"]


def test_a_local_mount_is_not_said_to_be_ignored(tmp_path: Path) -> None:
    text = _NONE.replace("output_dir: out", "output_dir: out, mounts: {evaluation: {/a: /b}}")
    draft = translated(tmp_path, text + "evaluation: {tasks: [{name: garak.garak}]}\n")
    assert draft.config["benchmarks"][0]["solver"]["mounts"] == {"/a": "/b"}
    (entry,) = [one for one in draft.report if one.field == "execution.mounts.evaluation"]
    assert entry.outcome == "translated"


def test_two_tasks_in_one_process_cannot_have_different_variables(tmp_path: Path) -> None:
    first = "{name: quickstart, env_vars: {HF_TOKEN: 'host:ONE'}}"
    second = "{name: quickstart, env_vars: {HF_TOKEN: 'host:TWO'}}"
    draft = translated(tmp_path, _NONE + f"evaluation: {{tasks: [{first}, {second}]}}\n")
    (refused,) = refusals(draft).items()
    assert refused[0] == "evaluation.tasks[1].env_vars.HF_TOKEN"
    assert "evaluation.tasks[0].env_vars.HF_TOKEN has another value" in refused[1]
    same = translated(tmp_path, _NONE + f"evaluation: {{tasks: [{first}, {first}]}}\n")
    assert refusals(same) == {}


def test_a_variable_of_one_task_that_all_get_is_a_warning(tmp_path: Path) -> None:
    task = "{name: quickstart, env_vars: {A: 'host:ONE'}}"
    shared = "env_vars: {A: 'host:TWO'}"
    draft = translated(tmp_path, _NONE + f"evaluation: {{{shared}, tasks: [{task}]}}\n")
    warned = {entry.field: entry.detail for entry in draft.of("warned")}
    assert "all tasks" in warned["evaluation.tasks[0].env_vars.A"]


_JUDGE = """
auxiliary_deployments:
  judge:
    type: vllm
    image: i:1
    port: 8000
    checkpoint_path: /j
    served_model_name: j
    endpoints: {chat: /v1/chat/completions}
"""


def test_an_auxiliary_server_that_no_task_uses_is_not_started(tmp_path: Path) -> None:
    draft = translated(tmp_path, _SLURM + _JUDGE + _TASK)
    assert "judge" not in draft.config["services"]
    assert list(draft.config["cluster"]["node_pools"]) == ["gpu"]
    warned = {entry.field: entry.detail for entry in draft.of("warned")}
    assert "no task uses it" in warned["auxiliary_deployments.judge"]


def test_an_unfinished_reference_is_no_key() -> None:
    accepted = [init._REFERENCE.fullmatch(text) for text in ("${X}", "${X:-y}", "${X", "${}", "$X")]
    assert [match is not None for match in accepted] == [True, True, False, False, False]
