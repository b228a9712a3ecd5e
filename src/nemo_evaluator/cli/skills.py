"""``nel skills``: a config from flags, and the skills for coding agents."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from nemo_evaluator.assistant.build_config import build_config, questions, read_answers, write_config
from nemo_evaluator.assistant.install import install_skills
from nemo_evaluator.assistant.yaml_text import missing_values


def answer_options(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The flags of the five questions, in both spellings, and what else a config may be given."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option("--output", "-o", help="A file (*.yaml) or a folder [default: this folder].")(command)
        command = click.option("--model", help="PROVIDER/MODEL of an endpoint, or the model that is served.")(command)
        command = click.option(
            "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any value of the config; repeatable."
        )(command)
        command = click.argument("more", nargs=-1, metavar="[BENCHMARK]...")(command)
        for name, short in reversed({"execution": "e", "deployment": "d", "export": "x", "model_type": "m"}.items()):
            words = list(questions()[name].words)
            names = dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}", f"-{short}"))
            command = click.option(
                *names,
                name,
                required=required and name != "export",
                metavar=f"[{'|'.join(words)}]",
                help=questions()[name].ask,
            )(command)
        many = questions()["benchmarks"]
        about = f"{', '.join([*many.words, *many.hidden])}, or names of recipes (`nel recipe`)."
        return click.option("--benchmarks", "-b", multiple=True, required=required, metavar="A B ...", help=about)(
            command
        )

    return add


def given_answers(given: dict[str, Any]) -> dict[str, Any]:
    """What flags answered; ``--benchmarks A B`` gives the words after the first as arguments."""
    benchmarks = (*given["benchmarks"], *given["more"])
    words = {name: value for name, value in given.items() if name in questions() and value}
    return words | ({"benchmarks": benchmarks} if benchmarks else {})


@click.group()
def skills() -> None:
    """Build a config from flags; install the skills for coding agents."""


@skills.command(name="build-config")
@answer_options(required=True)
def build(settings: tuple[str, ...], model: str | None, output: str | None, **given: Any) -> None:
    """Write a config from the answers to five questions. An existing file is never overwritten.

    Values that only you know stay `???`; the command lists them, and --set gives them.
    """
    answers = read_answers(given_answers(given))
    text = build_config(answers, settings, model)
    click.echo(f"Config written to: {write_config(text, answers, output)}")
    if missing := missing_values(text):
        click.echo("Values that are missing (???), to be filled in:")
        for one in missing:
            click.echo(f"  {one.name}: {one.hint}")


@skills.command()
@click.option("--dir", "folder", type=click.Path(file_okay=False, path_type=Path), help="Where agents look for skills.")
@click.option("--force", is_flag=True, help="Replace skills that were changed.")
def install(folder: Path | None, force: bool) -> None:
    """Copy the skills nel-assistant and evaluation to where coding agents look: .claude/skills, .agents/skills, ..."""
    for path in install_skills(folder, force=force):
        click.echo(f"Installed: {path}")
