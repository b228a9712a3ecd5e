"""Words that people bring along from other tools, and what does the same here. Loaded only when a word is unknown."""

from collections.abc import Sequence
from typing import Final

from nemo_evaluator.core.registry import nearest

# Commands that are known and not built, and what does the same, or some of it, here.
_PLANNED: Final = {
    "view": "nel report RUN -f html, or nel show RUN --wrong",
}
_COMMANDS: Final = {
    "evaluate": "nel eval run",
    "eval-set": "nel eval run",
    "retry": "nel eval resume",
    "eval-retry": "nel eval resume",
    "score": "nel eval rescore",
    "log": "nel show RUN",
    "tasks": "nel list",
    **{name: f"nel eval {name}" for name in ("stop", "runs", "jobs", "merge", "rescore")},
}
_OPTIONS: Final = {
    **dict.fromkeys(("--task", "--tasks", "--benchmark", "--eval"), "--bench"),
    **dict.fromkeys(("--model-args", "--base-url", "--model-base-url", "--endpoint"), "--model-url"),
    **dict.fromkeys(("--model-name", "--deployment"), "--model-id"),
    **dict.fromkeys(("--epochs", "--num-repeats", "--n-samples"), "--repeats"),
    **dict.fromkeys(("--max-samples", "--max-examples", "--limit-samples", "--num-examples"), "--limit"),
    **dict.fromkeys(("--samples", "--sample-id", "--problem"), "--only"),
    **dict.fromkeys(("--max-connections", "--num-concurrent", "--parallelism", "--max-tasks"), "--concurrency"),
    **dict.fromkeys(("--log-dir", "--output-path", "--output", "--out"), "--output-dir"),
    **dict.fromkeys(("--num-fewshot", "--fewshot", "--gen-kwargs", "--config-override"), "-O KEY=VALUE"),
    **dict.fromkeys(("--system-message", "--system-instruction"), "--system-prompt"),
}


def better_command(group: str, word: str, known: Sequence[str]) -> str | None:
    """What was probably meant by a command that ``group`` does not have."""
    if word.endswith((".yaml", ".yml")):
        return f"nel eval run {word}"
    if group.endswith(" eval") and (word.endswith(".py") or ".py:" in word or ".py@" in word or "://" in word):
        return f"nel eval run --bench {word.partition('@')[0]}"
    close = nearest(word, list(known))
    if close is None and group.endswith(" eval"):
        return f"nel eval run --bench {word}"
    return f"{group} {close}" if close is not None else _COMMANDS.get(word.replace("_", "-").lower())


def planned(word: str) -> str | None:
    """What to do meanwhile, for a command that is known and not built."""
    return _PLANNED.get(word.replace("_", "-").lower())


def better_option(name: str) -> str | None:
    """The option that does what ``name`` does elsewhere."""
    return _OPTIONS.get(name.replace("_", "-").lower())
