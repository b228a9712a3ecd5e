"""``nel judge label RUN``: the drawn rows one by one, without what the judge said of them."""

from __future__ import annotations

import click

from nemo_evaluator.cli._complete import run_ids
from nemo_evaluator.cli.judge._run import bundle_of
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.calibrate.judged_rows import read_judged
from nemo_evaluator.runs.calibration import read_draw
from nemo_evaluator.runs.labels import Label, Verdict, append_label, read_labels
from nemo_evaluator.runs.row import Row

_WORDS: dict[str, Verdict] = {"r": "right", "w": "wrong", "u": "unsure"}


@click.command()
@click.argument("run", shell_complete=run_ids)
@click.option("--who", default="", help="Your name or initials, kept with each label.")
@click.option("--benchmark", help="Which benchmark of RUN.")
def label(run: str, who: str, benchmark: str | None) -> None:
    """Label the drawn rows of RUN. Every label is saved at once; run the command again to continue.

    The judge's verdict is not shown, so that it cannot sway you.
    """
    bundle = bundle_of(run, benchmark)
    folder = bundle.path.parent
    draw = read_draw(folder)
    if draw is None:
        raise UsageError(f"no rows of {folder} are drawn", hint=f"nel judge sample {run}")
    low, high = read_judged(bundle).scale
    done = read_labels(folder)
    texts = {row.key: row for row in bundle.rows() if row.key in {drawn.key for drawn in draw.rows}}
    todo = [drawn.key for drawn in draw.rows if drawn.key not in done and drawn.key in texts]
    click.echo(f"{counted(len(draw.rows) - len(todo), 'row')} labelled, {len(todo):,} to go")
    at = 0
    while at < len(todo):
        click.echo(harmless(_shown(texts[todo[at]], at + 1, len(todo))))
        said = _asked(low, high)
        if said == "q":
            break
        if said == "b":
            at = max(at - 1, 0)
            continue
        if said != "s":
            word = _WORDS.get(said)
            reward = None if word is not None else (float(said) - low) / (high - low)
            named: Verdict = word or ("right" if reward is not None and reward >= 0.5 else "wrong")
            append_label(folder, Label(*todo[at], named, who=who, reward=reward))
        at += 1
    left = sum(key not in read_labels(folder) for key in todo)
    click.echo(f"saved; {counted(left, 'row')} to go" if left else f"all rows are labelled: nel judge calibrate {run}")


def _asked(low: float, high: float) -> str:
    graded = high - low > 1
    grade = f", a grade from {low:g} to {high:g}" if graded else ""
    while True:
        said: str = click.prompt(f"[r]ight, [w]rong, [u]nsure{grade}, [s]kip, [b]ack, [q]uit", prompt_suffix=" > ")
        said = said.strip().lower()
        if said[:1] in (*_WORDS, "s", "b", "q"):
            return said[0]
        try:
            if graded and low <= float(said) <= high:
                return said
        except ValueError:
            pass
        click.echo(f"{said!r} is none of these")


def _shown(row: Row, number: int, of: int) -> str:
    expected = f"\n--- reference\n{row.expected}" if row.expected not in (None, "") else ""
    return f"\n=== {number} of {of}\n--- prompt\n{row.prompt}\n--- answer\n{row.response}{expected}\n"
