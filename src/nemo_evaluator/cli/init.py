"""``nel init`` and ``nel skills``: a config from a few answers, and the skills for coding agents."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

from nemo_evaluator.assistant.build_config import (
    Question,
    ask_answers,
    ask_missing,
    build_config,
    output_path,
    questions,
    read_answers,
    refuse_missing,
    write_config,
)
from nemo_evaluator.assistant.install import install_skills
from nemo_evaluator.assistant.yaml_text import MissingValue, missing_values
from nemo_evaluator.cli._options import option
from nemo_evaluator.core.errors import UsageError


def answer_options(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The flags of the five questions, in both spellings, and what else a config may be given."""

    many = questions()["benchmarks"]
    about = f"{', '.join([*many.words, *many.hidden])}, or names of recipes (`nel recipe`)."
    options = [
        option(
            "--benchmarks", "-b", multiple=True, required=required, metavar="A B ...", help=about
        )
    ]
    for name, short in {
        "execution": "e",
        "deployment": "d",
        "export": "x",
        "model_type": "m",
    }.items():
        one = questions()[name]
        must = required and name != "export"
        names = dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}", f"-{short}"))
        options.append(
            option(*names, name, required=must, metavar=f"[{'|'.join(one.words)}]", help=one.ask)
        )
    value = "Any value of the config; repeatable."
    options += [
        click.argument("more", nargs=-1, metavar="[BENCHMARK]..."),
        option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=value),
        option("--model", help="PROVIDER/MODEL of an endpoint, or the model to serve."),
        option(
            "--output",
            "-o",
            help="Write the config to this file (*.yaml) or folder [default: this folder].",
        ),
    ]
    return lambda command: reduce(lambda made, add: add(made), reversed(options), command)


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
    missing = missing_values(text)
    if missing:
        click.echo("Values that are missing (???), to be filled in:")
        for one in missing:
            click.echo(f"  {one.name}: {one.hint}")


@skills.command()
@option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder where the agent looks for skills.",
)
@option("--force", is_flag=True, help="Replace skills that you have changed.")
def install(folder: Path | None, force: bool) -> None:
    """Copy the skills nel-assistant and evaluation to the skill folders of coding agents, such as .claude/skills."""
    for path in install_skills(folder, force=force):
        click.echo(f"Installed: {path}")


def _choose(question: Question, default: str) -> str:
    """Ask at the terminal, again until the answer is one."""
    words = list(question.words)
    click.echo(f"\n{question.ask}")
    for number, (word, about) in enumerate(question.words.items(), start=1):
        click.echo(f"  {number}. {word:<15} {about}")

    def checked(text: str) -> str:
        parts = text.replace(",", " ").split()
        named: list[str] = []
        for part in parts:
            named.append(
                words[int(part) - 1] if part.isdecimal() and 0 < int(part) <= len(words) else part
            )
        if not named or (len(named) > 1 and not question.many):
            raise click.BadParameter(
                "one of the numbers or words above" + (", or several" * question.many)
            )
        try:
            return ",".join(question.check(part) for part in named)
        except UsageError as error:
            raise click.BadParameter(f"{error.message}; {error.hint}") from error

    found: str = click.prompt("Answer", default=default, value_proc=checked)
    return found


def _value(missing: MissingValue) -> str:
    def checked(text: str) -> str:
        if not text.strip():
            raise click.BadParameter("a value is needed; Ctrl-C leaves without writing anything")
        if missing.path[-1] == "api_key" and not (
            text == "null" or text.isidentifier() or text.startswith("${")
        ):
            raise click.BadParameter(
                "give the name of the variable that holds the key, not the key"
            )
        return text

    found: str = click.prompt(
        f"\n{missing.name}\n  {missing.hint}\nValue", "", value_proc=checked, show_default=False
    )
    return found


@click.command()
@answer_options(required=False)
@option(
    "--yes",
    "-y",
    is_flag=True,
    help="Ask no questions: use defaults for missing flags; fail if a required value is missing.",
)
def init(
    settings: tuple[str, ...], model: str | None, output: str | None, yes: bool, **flags: Any
) -> None:
    """Write a config: answer five questions, then give the missing values. Flags answer questions in advance.

    The config is shown before it is written; an existing file is never overwritten.
    """
    given = given_answers(flags)
    if yes:
        answers = read_answers(given)
        text = build_config(answers, settings, model)
        refuse_missing(text)
    else:
        if len(given) < len(questions()):
            click.echo("Five questions build the config. Enter takes the answer in brackets.")
        answers = ask_answers(_choose, given)
        text = ask_missing(_value, build_config(answers, settings, model))
        click.echo(f"\n{text}")
        click.confirm(f"Write {output_path(answers, output)}?", default=True, abort=True)
    path = write_config(text, answers, output)
    click.echo(f"Config written to: {path}\nNext: nel config check {path}")
