"""Write a translated config as YAML with comments, and start it as a run of nel with the launcher's ids."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import yaml

from nemo_evaluator.config import Document
from nemo_evaluator.config._references import expand_environment
from nemo_evaluator.config._yaml import parse_document
from nemo_evaluator.core.errors import ConfigError, UsageError
from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.core.secret_places import remember_config
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.text import valid_text
from nemo_evaluator.executors.request import RunRequest
from nemo_evaluator.launch.start import start
from nemo_evaluator.launcher.compose import variables_read
from nemo_evaluator.launcher.references import without_secrets
from nemo_evaluator.launcher.table import Translated
from nemo_evaluator.store.run_registry import invocation_of, new_run_id, registry_dir

_WIDTH: Final = 120
# Sections of the launcher's format.
_LAUNCHER_SECTIONS: Final = (
    "evaluation",
    "deployment",
    "execution",
    "target",
    "export",
    "env_vars",
    "auxiliary_deployments",
)


def converted_text(translated: Translated, source: str) -> str:
    """Render the translated config as YAML, with warnings at its head and the launcher's field beside each value.

    Args:
        translated: The translated config; its secrets are already references (see ``move_secrets``).
        source: The launcher's file.
    """
    field_of_path: dict[str, str] = {}
    for path, field in translated.origins.items():
        field_of_path[path.replace("[", ".").replace("]", "")] = field
    body = yaml.safe_dump(translated.config, sort_keys=False, allow_unicode=True, width=_WIDTH)
    lines = body.splitlines()
    for keys, position in parse_document(body, source).marks.items():
        origin = field_of_path.get(".".join(map(str, keys)))
        line = (position.line or 1) - 1
        if origin is not None and "#" not in lines[line]:
            lines[line] += f"  # {origin}"
    header = [f"# Converted from {source}. Run it with: nel eval run FILE"]
    for translation in translated.of("warned"):
        header.append(f"# {translation.field}: {translation.detail}")
    return valid_text(scrub("\n".join([*header, *lines])) + "\n")


def move_secrets(translated: Translated) -> list[str]:
    """Move the secrets in the config into the environment of this process, which a run inherits.

    Returns:
        The names of the variables to which the config refers now.
    """
    # A reference is not a secret itself; the check of the config reports variables that are not set.
    expanded, _ = expand_environment(Document(translated.config), os.environ)
    remember_config(expanded, translated.config, os.environ)
    translated.config, variables = without_secrets(translated.config, variables_read.get({}))
    os.environ.update(variables)
    return sorted(variables)


def start_translated(
    translated: Translated,
    text: str,
    command: tuple[str, ...],
    source: str,
    *,
    folder: Path | None = None,
    dry_run: bool = False,
    wait: bool = False,
) -> int:
    """Store a translated config as ``<invocation>_config.yml`` and start it.

    Args:
        translated: The translated config.
        text: The config as YAML.
        command: The command line, for the record.
        source: The launcher's file; errors name its fields.
        folder: Where to store the config; None: beside the registry of runs.
        dry_run: Print the plan; start nothing.
        wait: Wait for the run to end, rather than run it in the background.

    Returns:
        The exit code.
    """
    if dry_run:
        with tempfile.TemporaryDirectory() as temporary_dir:
            file = Path(temporary_dir) / "config.yaml"
            file.write_text(text, encoding="utf-8")
            request = RunRequest(str(file), dry_run=True, command=command)
            return _started(request, translated, source)
    run_id = new_run_id()
    invocation = invocation_of(run_id)
    config_folder = folder or registry_dir().parent / "run_configs"
    file = config_folder.expanduser() / f"{invocation}_config.yml"
    # An existing folder keeps its mode.
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(file, text, mode=0o600)
    output_dir = f"{translated.config['output']['dir'].rstrip('/')}/{run_id}"
    request = RunRequest(str(file), output_dir=output_dir, run_id=run_id, command=command)
    if not wait:
        uses_slurm = translated.config.get("cluster", {}).get("type") == "slurm"
        request = replace(request, background=not uses_slurm, submit=uses_slurm)
    exit_code = _started(request, translated, source)
    if exit_code == 0 and not wait:
        print(_submission_text(translated, file, invocation), flush=True)
    return exit_code


def _submission_text(translated: Translated, file: Path, invocation: str) -> str:
    """Render what the launcher prints after a submission: the config, the ids of the jobs, and the next commands."""
    lines = [f"Config: {file}", f"Job submission successful | Invocation ID: {invocation}"]
    for benchmark in translated.config["benchmarks"]:
        name, _, number = benchmark["id"].rpartition(".")
        lines.append(f"  {invocation}.{number}: {name}")
    for subcommand in ("status", "info", "logs", "kill"):
        lines.append(f"  nel {subcommand} {invocation}")
    return "\n".join(lines)


def _started(request: RunRequest, translated: Translated, source: str) -> int:
    """Start a request; errors name the launcher's fields."""
    try:
        return start(request)
    except ConfigError as error:
        raise translated.blamed(error, source) from error


def is_own(file: Path) -> bool:
    """Return whether a file is a config of nel, such as one from `nel init`, rather than of the launcher."""
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        # Composing the config will report the error.
        return False
    if not isinstance(data, dict) or "benchmarks" not in data:
        return False
    return "evaluation" not in data


def start_own(
    file: Path,
    overrides: Sequence[str],
    command: tuple[str, ...],
    *,
    dry_run: bool = False,
    wait: bool = False,
) -> int:
    """Start a config of nel unchanged.

    Args:
        file: The config.
        overrides: Overrides in the launcher's form; ``++a.b=c`` becomes ``a.b=c``.
        command: The command line, for the record.
        dry_run: Print the plan; start nothing.
        wait: Wait for the run to end, rather than run it in the background.

    Returns:
        The exit code.

    Raises:
        UsageError: If an override is for the launcher's format, or removes a value (``~``), which nel does not support.
    """
    for override in overrides:
        if override.lstrip("+~").partition(".")[0] in _LAUNCHER_SECTIONS:
            raise UsageError(
                f"-o {override.partition('=')[0]}: {file} is a config of nel, not of the launcher",
                hint="`nel config schema` has nel's keys, such as benchmarks.0.max_problems; "
                "`nel skills build-config` writes the launcher's format",
            )
    removals = [override for override in overrides if override.startswith("~")]
    if removals:
        raise UsageError(
            f"-o {removals[0]}: {file} is a config of nel, which has no `~`",
            hint="take it out of the file",
        )
    nel_overrides = tuple(override.lstrip("+") for override in overrides)
    return start(
        RunRequest(
            str(file),
            override=nel_overrides,
            dry_run=dry_run,
            background=not wait and not dry_run,
            command=command,
        )
    )
