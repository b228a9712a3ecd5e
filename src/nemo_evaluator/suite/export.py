"""Exports at the end of a run. A failed export is reported, and fails the run only with ``strict_export``."""

from collections.abc import Callable
from pathlib import Path

from nemo_evaluator.config import OutputConfig
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.engine.plan import Shard
from nemo_evaluator.exporters import export_bundles


def run_exports(
    output: OutputConfig,
    output_dir: Path,
    say: Callable[[str], None],
    *,
    shard: Shard | None = None,
) -> list[str]:
    """Run every exporter of the config.

    A shard is not exported, because a tracker would show each part as a result; ``nel eval merge`` exports the whole.

    Returns:
        The errors, one line per failed exporter.
    """
    if shard is not None and output.exporters:
        say(
            f"shard {shard.index} is not exported: `nel eval merge {output_dir.parent}` exports the whole"
        )
        return []
    errors = []
    for name, settings in output.exporters.items():
        try:
            export_bundles(name, [output_dir], settings, output_dir=output_dir)
            say(f"Exported to: {name}")
        except NelError as error:
            errors.append(f"{name}: {error.message}")
            message = f"export to {name} failed: {error.message}"
            if error.hint:
                message += f" ({error.hint})"
            say(message)
    return errors
