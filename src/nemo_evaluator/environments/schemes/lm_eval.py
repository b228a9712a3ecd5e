"""``lm-eval://``: a task, group or tag of the Language Model Evaluation Harness, run with our own client."""

import importlib.util
from typing import Final

from nemo_evaluator.core.errors import MissingExtraError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.environments.base import EvalEnvironment


def build(
    uri: str,
    num_examples: int | None = None,
    num_fewshot: int | None = None,
    include_path: str | None = None,
    limit: float | None = None,
    metric: str | None = None,
    tokenizer: str | None = None,
    max_length: int = 2048,
    *,
    fewshot_as_multiturn: bool | None = None,
) -> EvalEnvironment:
    """Open ``lm-eval://NAME``.

    Args:
        uri: The URI of the task, group or tag.
        num_examples: The number of documents in all, from the first; None for all.
        num_fewshot: The number of few-shot examples; None for the tasks' own.
        include_path: A folder with further task files.
        limit: The number of documents of each task, from the first, or a share of them below 1; None for all.
        metric: The metric that becomes the reward, such as ``exact_match,strict-match``.
        tokenizer: For log-likelihoods: the model's ``tokenizer.json``, its folder or a name on the hub. By default,
            nel finds it by the model's name or uses the server's own.
        max_length: The maximum length of a log-likelihood prompt in tokens.
        fewshot_as_multiturn: For chat endpoints: whether each few-shot example is a turn of its own, as lm-eval does
            by default, or all are in the one message.

    Raises:
        MissingExtraError: Lm-eval is not installed.
        UsageError: The task is unknown, or nel cannot run it.
    """
    _check_extra()
    from nemo_evaluator.environments.schemes import _lm_eval_tasks, _loglikelihood_prompts  # noqa: PLC0415 - an extra

    prompts = _loglikelihood_prompts.LoglikelihoodPrompts(tokenizer, max_length)
    suite = _lm_eval_tasks.load_suite(
        uri.partition("://")[2], include_path, num_fewshot, limit=limit
    )
    return _lm_eval_tasks.LmEvalEnvironment(
        uri,
        suite,
        prompts,
        metric=metric,
        num_examples=num_examples,
        fewshot_as_multiturn=fewshot_as_multiturn,
    )


def task_names() -> list[str]:
    """Return the names of all lm-eval tasks, groups and tags; reading all of their files takes some seconds."""
    _check_extra()
    from nemo_evaluator.environments.schemes import _lm_eval_tasks  # noqa: PLC0415 - an extra

    return sorted(_lm_eval_tasks.task_manager(None, stock=True).all_tasks)


def _check_extra() -> None:
    if importlib.util.find_spec("lm_eval") is None:
        raise MissingExtraError("lm_eval", extra="lm-eval")


KIND: Final = Kind(build=build)
