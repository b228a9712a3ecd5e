"""``nel init`` and ``nel skills``: build a config from a few answers, and install the skills for coding agents."""

import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, Final

import click

from nemo_evaluator.assistant.build_config import (
    Format,
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
    """Return a decorator that adds the flags of the five questions, and the other options of a new config.

    Args:
        required: Whether every question except ``export`` needs an answer.
    """

    benchmarks = questions()["benchmarks"]
    benchmarks_help = (
        f"{', '.join([*benchmarks.words, *benchmarks.hidden])}, or names of recipes (`nel recipe`)."
    )
    options = [
        option(
            "--benchmarks",
            "-b",
            multiple=True,
            required=required,
            metavar="A B ...",
            help=benchmarks_help,
        )
    ]
    for name, short in {
        "execution": "e",
        "deployment": "d",
        "export": "x",
        "model_type": "m",
    }.items():
        question = questions()[name]
        is_required = required and name != "export"
        names = dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}", f"-{short}"))
        options.append(
            option(
                *names,
                name,
                required=is_required,
                metavar=f"[{'|'.join(question.words)}]",
                help=question.ask,
            )
        )
    settings_help = "Any value of the config; repeatable."
    options += [
        click.argument("more", nargs=-1, metavar="[BENCHMARK]..."),
        option(
            "--format",
            "form",
            type=click.Choice(["nel", "launcher"]),
            default="launcher" if required else "nel",
            show_default=True,
            help="Write nel's own format, or the launcher's, which `nel run` takes.",
        ),
        option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=settings_help),
        option("--model", help="PROVIDER/MODEL of an endpoint, or the model to serve."),
        option(
            "--output",
            "-o",
            help="Write the config to this file (*.yaml) or folder [default: this folder].",
        ),
    ]
    return lambda command: reduce(
        lambda decorated, decorator: decorator(decorated), reversed(options), command
    )


def given_answers(given: dict[str, Any]) -> dict[str, Any]:
    """Return the answers that flags gave.

    Args:
        given: The values of the flags. ``--benchmarks A B`` gives all names after the first as arguments (``more``).
    """
    answers: dict[str, Any] = {}
    for name, value in given.items():
        if name in questions() and value:
            answers[name] = value
    benchmarks = (*given["benchmarks"], *given["more"])
    if benchmarks:
        answers["benchmarks"] = benchmarks
    return answers


def next_command(path: Path, form: Format) -> str:
    """Return the command that checks a new config."""
    if form == "launcher":
        return f"nel run --config {path} --dry-run"
    return f"nel config check {path}"


@click.group()
def skills() -> None:
    """Build a config from flags; install the skills for coding agents."""


@skills.command(name="build-config")
@answer_options(required=True)
def build(
    settings: tuple[str, ...], model: str | None, output: str | None, form: Format, **given: Any
) -> None:
    """Write a config from the answers to five questions. An existing file is never overwritten.

    Values that only you know stay `???`; the command lists them, and --set gives them.
    """
    answers = read_answers(given_answers(given))
    text = build_config(answers, settings, model, form)
    path = write_config(text, answers, output)
    click.echo(f"Config written to: {path}")
    missing = missing_values(text)
    if missing:
        click.echo("Values that are missing (???), to be filled in:")
        for missing_value in missing:
            click.echo(f"  {missing_value.name}: {missing_value.hint}")
    click.echo(f"Next: {next_command(path, form)}")


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
    """Ask a question at the terminal until the answer is valid."""
    choices = list(question.words)
    click.echo(f"\n{question.ask}")
    for number, (choice, meaning) in enumerate(question.words.items(), start=1):
        click.echo(f"  {number}. {choice:<15} {meaning}")

    def checked(text: str) -> str:
        """Return the chosen answers, which may be numbers or names; click asks again after an error."""
        chosen: list[str] = []
        for part in text.replace(",", " ").split():
            if part.isdecimal() and 0 < int(part) <= len(choices):
                chosen.append(choices[int(part) - 1])
            else:
                chosen.append(part)
        if question.many and not chosen:
            raise click.BadParameter("one of the numbers or words above, or several")
        if not question.many and len(chosen) != 1:
            raise click.BadParameter("one of the numbers or words above")
        try:
            return ",".join(question.check(part) for part in chosen)
        except UsageError as error:
            raise click.BadParameter(f"{error.message}; {error.hint}") from error

    answer: str = click.prompt("Answer", default=default, value_proc=checked)
    return answer


# A reference to a variable, perhaps with a default.
_REFERENCE: Final = re.compile(r"\$\{[A-Za-z_]\w*(:-[^}]*)?\}")


def _value(missing: MissingValue) -> str:
    """Ask at the terminal for a missing value."""
    is_key = missing.path[-1] in ("api_key", "api_key_name")

    def checked(text: str) -> str:
        """Refuse an empty value, and anything but the name of a variable (or null) for an API key."""
        if not text.strip():
            raise click.BadParameter("a value is needed; Ctrl-C leaves without writing anything")
        names_variable = text == "null" or text.isidentifier() or _REFERENCE.fullmatch(text)
        if is_key and not names_variable:
            raise click.BadParameter(
                "give the name of the variable that holds the key, not the key"
            )
        return text

    answer: str = click.prompt(
        f"\n{missing.name}\n  {missing.hint}\nValue", "", value_proc=checked, show_default=False
    )
    return answer


@click.command()
@answer_options(required=False)
@option(
    "--yes",
    "-y",
    is_flag=True,
    help="Ask no questions: use defaults for missing flags; fail if a required value is missing.",
)
def init(
    settings: tuple[str, ...],
    model: str | None,
    output: str | None,
    form: Format,
    yes: bool,
    **flags: Any,
) -> None:
    """Write a config: answer five questions, then give the missing values. Flags answer questions in advance.

    The config is shown before it is written; an existing file is never overwritten.
    """
    given_by_flags = given_answers(flags)
    if yes:
        answers = read_answers(given_by_flags)
        text = build_config(answers, settings, model, form)
        refuse_missing(text)
    else:
        if len(given_by_flags) < len(questions()):
            click.echo("Five questions build the config. Enter takes the answer in brackets.")
        answers = ask_answers(_choose, given_by_flags)
        text = ask_missing(_value, build_config(answers, settings, model, form))
        click.echo(f"\n{text}")
        click.confirm(f"Write {output_path(answers, output)}?", default=True, abort=True)
    path = write_config(text, answers, output)
    click.echo(f"Config written to: {path}\nNext: {next_command(path, form)}")
