"""``nel init``: a config from a few answers at the terminal."""

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
from nemo_evaluator.assistant.yaml_text import Missing
from nemo_evaluator.cli.skills import answer_options, given_answers
from nemo_evaluator.core.errors import UsageError


def _choose(question: Question, default: str) -> str:
    """Ask at the terminal, again until the answer is one."""
    words = list(question.words)
    click.echo(f"\n{question.ask}")
    for number, (word, about) in enumerate(question.words.items(), start=1):
        click.echo(f"  {number}. {word:<15} {about}")

    def checked(text: str) -> str:
        parts = text.replace(",", " ").split()
        named = [words[int(part) - 1] if part.isdecimal() and 0 < int(part) <= len(words) else part for part in parts]
        if not named or (len(named) > 1 and not question.many):
            raise click.BadParameter("one of the numbers or words above" + (", or several" * question.many))
        try:
            return ",".join(question.check(part) for part in named)
        except UsageError as error:
            raise click.BadParameter(f"{error.message}; {error.hint}") from error

    found: str = click.prompt("Answer", default=default, value_proc=checked)
    return found


def _value(missing: Missing) -> str:
    def checked(text: str) -> str:
        if not text.strip():
            raise click.BadParameter("a value is needed; Ctrl-C leaves without writing anything")
        if missing.path[-1] == "api_key" and not (text == "null" or text.isidentifier() or text.startswith("${")):
            raise click.BadParameter("give the name of the variable that holds the key, not the key")
        return text

    found: str = click.prompt(f"\n{missing.name}\n  {missing.hint}\nValue", "", value_proc=checked, show_default=False)
    return found


@click.command()
@answer_options(required=False)
@click.option(
    "--yes", "-y", is_flag=True, help="Ask nothing: defaults for what no flag gives; missing values are an error."
)
def init(settings: tuple[str, ...], model: str | None, output: str | None, yes: bool, **flags: Any) -> None:
    """Write a config: five questions, then the values that are missing. Flags answer in advance.

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
