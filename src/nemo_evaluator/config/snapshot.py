"""``full_config.yaml``: the composed config of a run, without secrets, from which it can be run again."""

import os
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml

from nemo_evaluator._version import __version__
from nemo_evaluator.config._document import show_path
from nemo_evaluator.config.load import LoadedConfig
from nemo_evaluator.config.overrides import parse_override
from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.core.secret_masks import masked_config
from nemo_evaluator.core.secret_places import ConfigPath
from nemo_evaluator.core.secrets import scrub

SNAPSHOT = "full_config.yaml"
INNER = "NEL_INNER_EXECUTION"


def write_snapshot(
    loaded: LoadedConfig, folder: Path, *, run_id: str | None = None, command: Sequence[str] = ()
) -> Path | None:
    """Write the snapshot of a run.

    Returns:
        Its path; None inside another execution, which writes nothing.
    """
    target = folder / SNAPSHOT
    if os.environ.get(INNER) == "1":
        return None
    write_atomic(target, snapshot_text(loaded, run_id=run_id, command=command))
    return target


def snapshot_text(
    loaded: LoadedConfig, *, run_id: str | None = None, command: Sequence[str] = ()
) -> str:
    """Return the text of the snapshot: a header of comments, then the config with environment references unexpanded."""
    masked: list[ConfigPath] = []
    data = masked_config(loaded.raw, masked)
    facts = {
        "version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(_mask_words(command, loaded.overrides)),
        "source": str(loaded.source or ""),
        "overrides": " ".join(map(_mask_override, loaded.overrides)),
        "run_id": run_id or "",
        "masked": ", ".join(map(show_path, masked)),
    }
    # The command names no folder, so it stays correct if the folder is moved.
    lines = [f"# Run it again with: nel eval run {SNAPSHOT}"]
    for name, value in facts.items():
        if value:
            lines.append(f"# {name}: {' '.join(value.split())}")
    body = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)
    return "\n".join(lines) + "\n" + body


def _mask_override(override: str) -> str:
    key = override.partition("=")[0]
    keys, parsed = parse_override(override)
    path = tuple(int(part) if part.isdecimal() else part for part in keys)
    masked = masked_config(parsed, [], path)
    if masked == parsed:
        return scrub(override)
    return f"{key}={masked}"


def _mask_words(command: Sequence[str], overrides: Sequence[str]) -> list[str]:
    masked_overrides = {override: _mask_override(override) for override in overrides}
    masked_command: list[str] = []
    for argument in command:
        for override, masked in masked_overrides.items():
            argument = argument.replace(override, masked)
        masked_command.append(scrub(argument))
    return masked_command
