"""``lm-eval://``: a task, group or tag of the Language Model Evaluation Harness, asked through our own client."""

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
    limit: int | None = None,
    metric: str | None = None,
    tokenizer: str | None = None,
    max_length: int = 2048,
) -> EvalEnvironment:
    """Open ``lm-eval://NAME``.

    ``include_path`` is a folder of further task files, ``limit`` keeps the first documents of each task, ``metric`` is
    the one that becomes the reward (``exact_match,strict-match``). For log-likelihoods, ``tokenizer`` is the model's
    ``tokenizer.json``, its folder or a name on the hub (by default found by the model's name, or the server's own), and
    ``max_length`` the longest prompt, in tokens.
    """
    _check_extra()
    from nemo_evaluator.environments.schemes import _lm_eval_tasks, _loglikelihood_prompts  # noqa: PLC0415 - an extra

    prompts = _loglikelihood_prompts.LoglikelihoodPrompts(tokenizer, max_length)
    suite = _lm_eval_tasks.load_suite(
        uri.partition("://")[2], include_path, num_fewshot, limit=limit
    )
    return _lm_eval_tasks.LmEvalEnvironment(
        uri, suite, prompts, metric=metric, num_examples=num_examples
    )


def task_names() -> list[str]:
    """All tasks, groups and tags of lm-eval; takes some seconds, as it reads all of their files."""
    _check_extra()
    from nemo_evaluator.environments.schemes import _lm_eval_tasks  # noqa: PLC0415 - an extra

    return sorted(_lm_eval_tasks.task_manager(None, stock=True).all_tasks)


def _check_extra() -> None:
    if importlib.util.find_spec("lm_eval") is None:
        raise MissingExtraError("lm_eval", extra="lm-eval")


KIND: Final = Kind(build=build)
