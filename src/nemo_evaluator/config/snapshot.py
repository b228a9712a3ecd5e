"""``full_config.yaml``: the composed config of a run, ready to be run again, with no secret in it."""

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
from nemo_evaluator.core.secret_places import ConfigPath, masked_config
from nemo_evaluator.core.secrets import scrub

SNAPSHOT = "full_config.yaml"
INNER = "NEL_INNER_EXECUTION"


def write_snapshot(
    loaded: LoadedConfig, folder: Path, *, run_id: str | None = None, command: Sequence[str] = ()
) -> Path | None:
    """Write the snapshot; None when nothing was written, as inside another execution."""
    target = folder / SNAPSHOT
    if os.environ.get(INNER) == "1":
        return None
    write_atomic(target, snapshot_text(loaded, run_id=run_id, command=command))
    return target


def snapshot_text(
    loaded: LoadedConfig, *, run_id: str | None = None, command: Sequence[str] = ()
) -> str:
    """The text of the snapshot: a header of comments, then the config with environment references unexpanded."""
    masked: list[ConfigPath] = []
    data = masked_config(loaded.raw, masked)
    facts = {
        "version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(_mask_words(command, loaded.overrides)) if command else None,
        "source": str(loaded.source) if loaded.source else None,
        "overrides": " ".join(map(_mask_override, loaded.overrides)) or None,
        "run_id": run_id,
        "masked": ", ".join(map(show_path, masked)) or None,
    }
    # It holds wherever the folder is: a snapshot runs in the folder in which it stands, from wherever it is called.
    lines = [f"# Run it again with: nel eval run {SNAPSHOT}"]
    lines += [f"# {name}: {' '.join(value.split())}" for name, value in facts.items() if value]
    body = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)
    return "\n".join(lines) + "\n" + body


def _mask_override(override: str) -> str:
    key = override.partition("=")[0]
    parts, parsed = parse_override(override)
    path = tuple(int(part) if part.isdecimal() else part for part in parts)
    shown = masked_config(parsed, [], path)
    if shown == parsed:
        return scrub(override)
    return f"{key}={shown}"


def _mask_words(command: Sequence[str], overrides: Sequence[str]) -> list[str]:
    shown = {override: _mask_override(override) for override in overrides}
    words: list[str] = []
    for word in command:
        for override, masked in shown.items():
            word = word.replace(override, masked)
        words.append(scrub(word))
    return words
