"""``nel config``: check a file, print the schema, manage the user's defaults."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import yaml

from nemo_evaluator.cli._errors import problem_place
from nemo_evaluator.cli._options import FILE, PATH, config_files, load_whole, option, say
from nemo_evaluator.config import LoadedConfig, config_schema, load_settings
from nemo_evaluator.config._document import Document
from nemo_evaluator.config.env_file import use_env_file
from nemo_evaluator.config.overrides import parse_value
from nemo_evaluator.config.schema import reference_markdown
from nemo_evaluator.config.user_settings import (
    check_settings,
    save_settings,
    setting_names,
    settings_path,
)
from nemo_evaluator.core.errors import ConfigError, UsageError
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted


@click.group()
def config() -> None:
    """Check config files and manage your own defaults."""


@config.command()
@click.argument("file", type=click.Path(), shell_complete=config_files)
@option(
    "-O",
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a config value; repeatable.",
)
@option(
    "--env-file", type=FILE, help="File with NAME=VALUE lines [default: .env next to the config]."
)
@option("--file-only", is_flag=True, help="Check only the file; open no dataset and no sandbox.")
@option(
    "--ping", is_flag=True, help="Also send one short request to every endpoint, judges included."
)
@option("--json", "as_json", is_flag=True, help="Output JSON.")
@click.pass_context
def check(
    context: click.Context,
    file: str,
    overrides: tuple[str, ...],
    env_file: str | None,
    file_only: bool,
    ping: bool,
    as_json: bool,
) -> None:
    """Check FILE and report all problems."""
    try:
        use_env_file(Path(file).parent, env_file)
        loaded = _load_checked(file, overrides, file_only=file_only, pinging=ping)
    except ConfigError as error:
        source = error.source or file
        if not as_json:
            raise ConfigError(error.problems, source=source) from error
        click.echo(scrub(json.dumps(_failure(error, source), indent=2)))
        context.exit(error.exit_code)
    pinged_services = loaded.config.api_services() if ping else None
    if as_json:
        document = _success(loaded, file, pinged_services)
        click.echo(json.dumps(document, indent=2))
        return
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    click.echo(f"ok: {file}")
    for line in _summary(loaded, pinged_services):
        click.echo(f"  {line}")


def _load_checked(
    file: str, overrides: Sequence[str], *, file_only: bool, pinging: bool
) -> LoadedConfig:
    """Load a config and check everything that would stop its run.

    Args:
        file: The config.
        overrides: Overrides as ``KEY=VALUE``.
        file_only: Check only the file; open no dataset and no sandbox, and ping no endpoint.
        pinging: Send one short request to every endpoint.

    Raises:
        ConfigError: The config has problems; the error holds all of them.
    """
    loaded: LoadedConfig = load_whole(file, overrides, file_only=file_only)
    # Imported only here: the other subcommands need no benchmark, scorer or exporter.
    from nemo_evaluator.preflight import find_problems  # noqa: PLC0415

    problems = find_problems(loaded, file_only=file_only, pinging=pinging and not file_only)
    loaded.refuse(problems)
    return loaded


def _failure(error: ConfigError, source: str) -> JsonDict:
    """Describe the problems of a config as data, for JSON."""
    problems: list[JsonDict] = []
    for problem in error.problems:
        problems.append(asdict(problem) | {"place": problem_place(problem, source)})
    return {"ok": False, "source": source, "problems": problems}


def _success(loaded: LoadedConfig, file: str, pinged_services: Sequence[str] | None) -> JsonDict:
    """Describe a correct config as data, for JSON.

    Args:
        loaded: The config.
        file: Its file.
        pinged_services: The services that answered a request; None if none was sent.
    """
    config = loaded.config
    document: JsonDict = {
        "ok": True,
        "source": file,
        "warnings": loaded.warnings,
        "services": {name: service.type for name, service in config.services.items()},
        "benchmarks": [benchmark.key for benchmark in config.benchmarks],
        "cluster": config.cluster.type,
        "output": config.output.dir,
    }
    if pinged_services is not None:
        document["answered"] = pinged_services
    return document


def _summary(loaded: LoadedConfig, pinged_services: Sequence[str] | None) -> list[str]:
    """Describe a correct config in a few lines; the arguments are those of ``_success``."""
    config = loaded.config
    services = [f"{name} ({service.type})" for name, service in config.services.items()]
    lines = [
        f"services: {', '.join(services)}",
        f"cluster: {config.cluster.type}",
        f"output: {config.output.dir}",
    ]
    for benchmark in config.benchmarks:
        size = "all problems"
        if benchmark.max_problems:
            size = counted(benchmark.max_problems, "problem")
        solver = benchmark.solver.type
        lines.append(f"benchmark {benchmark.key}: {size} x {benchmark.repeats}, solver {solver}")
    if pinged_services is not None:
        names = ", ".join(pinged_services)
        lines.append(f"answered: {names or 'no endpoint to ask; nel starts the services itself'}")
    return lines


@config.command()
@click.argument("file", type=PATH, shell_complete=config_files)
def env(file: Path) -> None:
    """Print an .env file with the variables that FILE needs, to be filled in."""
    from nemo_evaluator.suite.env_example import env_example  # noqa: PLC0415 - not for the other subcommands

    click.echo(env_example(file), nl=False)


@config.command()
@option("--markdown", is_flag=True, help="Print Markdown tables instead of JSON Schema.")
def schema(markdown: bool) -> None:
    """Print the JSON Schema of config files, for editors."""
    click.echo(reference_markdown() if markdown else json.dumps(config_schema(), indent=2))


@config.command()
def show() -> None:
    """Print your defaults and the path of the file that stores them."""
    settings = _settings()
    click.echo(f"# {settings_path()}")
    if settings:
        click.echo(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), nl=False)


@config.command()
@click.argument("key")
def get(key: str) -> None:
    """Print your default for KEY."""
    _check_key(key, groups_too=True)
    value: Any = _settings()
    for key_part in key.split("."):
        value = as_dict(value).get(key_part)
    if value is None:
        raise UsageError(f"{key} is not set", hint=f"set it with: nel config set {key} VALUE")
    click.echo(value if isinstance(value, str) else json.dumps(value))


@config.command(name="set")
@click.argument("key")
@click.argument("value")
def set_(key: str, value: str) -> None:
    """Save VALUE as your default for KEY."""
    _check_key(key)
    group, name = key.split(".")
    settings = _settings()
    group_settings = {**settings.get(group, {}), name: parse_value(value, key)}
    changed = {**settings, group: group_settings}
    save_settings(check_settings(Document(changed)))
    click.echo(f"{key} = {value}")


@config.command()
@click.argument("key")
def unset(key: str) -> None:
    """Remove your default for KEY."""
    _check_key(key)
    group, name = key.split(".")
    settings = _settings()
    group_settings = dict(settings.pop(group, {}))
    if name not in group_settings:
        raise UsageError(f"{key} is not set", hint="see: nel config show")
    del group_settings[name]
    if group_settings:
        settings[group] = group_settings
    save_settings(settings)
    click.echo(f"{key} is no longer set")


def _settings() -> JsonDict:
    """Load a copy of the user's defaults; warnings go to stderr."""
    return dict(load_settings(lambda text: say(f"warning: {text}")))


def _check_key(key: str, *, groups_too: bool = False) -> None:
    """Check a key of the user's settings, such as ``group.name``.

    Args:
        key: The key.
        groups_too: Allow the name of a group as well.

    Raises:
        UsageError: The key is unknown; the error suggests a similar one.
    """
    names = setting_names()
    groups = {name.split(".")[0] for name in names}
    if key in names or (groups_too and key in groups):
        return
    raise UsageError(f"unknown key {key!r}", hint=did_you_mean(key, names))
