"""``nel judge sample RUN``: rows for people to label, drawn by chance."""

from __future__ import annotations

from typing import get_args

import click

from nemo_evaluator.cli._complete import run_ids
from nemo_evaluator.cli.judge._run import bundle_of
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.decisions.calibrate.draw import Method, draw_like, draw_rows, expected_widths
from nemo_evaluator.decisions.calibrate.judged_rows import read_judged
from nemo_evaluator.runs.calibration import read_draw


@click.command()
@click.argument("run", shell_complete=run_ids)
@click.option("--labels", "-n", type=click.IntRange(min=2), default=100, show_default=True, help="How many rows.")
@click.option(
    "--method",
    type=click.Choice(get_args(Method)),
    default="uniform",
    show_default=True,
    help="stratified: more of rare verdicts; uncertainty: more of the rows that the judge is unsure of.",
)
@click.option("--like", metavar="RUN", help="The problems that were drawn from that run, to compare the two in pairs.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--replace", is_flag=True, help="Draw anew; earlier labels count where their rows are drawn again.")
@click.option("--benchmark", help="Which benchmark of RUN.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def sample(
    run: str,
    labels: int,
    method: Method,
    like: str | None,
    seed: int,
    replace: bool,
    benchmark: str | None,
    as_json: bool,
) -> None:
    """Draw rows of RUN for people to label, and say how narrow the corrected interval will be.

    The draw is kept beside the rows (label_draw.json), each row with its probability.
    """
    bundle = bundle_of(run, benchmark)
    folder = bundle.path.parent
    if read_draw(folder) is not None and not replace:
        raise UsageError(
            f"rows of {folder} are drawn already", hint=f"nel judge label {run}, or draw anew with --replace"
        )
    rows = read_judged(bundle)
    if like is None:
        draw = draw_rows(rows, labels, method, seed)
    else:
        other = bundle_of(like, benchmark or bundle.name)
        if (theirs := read_draw(other.path.parent)) is None:
            raise UsageError(f"no rows of {like} are drawn", hint=f"nel judge sample {like}")
        draw = draw_like(rows, read_judged(other), theirs)
    draw.save(folder)
    corrected, alone = expected_widths(rows, len(draw.rows))
    facts = {"folder": str(folder), "method": draw.method, "seed": draw.seed, "drawn": len(draw.rows)}
    if as_json:
        click.echo(dumps({**facts, "rows": len(rows), "half_width": corrected, "half_width_labels_alone": alone}))
        return
    click.echo(f"{bundle.name}: {len(draw.rows):,} of {len(rows):,} rows drawn ({draw.method}, seed {draw.seed})")
    click.echo(
        f"the corrected score will be known to about ±{corrected:.3f} with a usual judge, ±{alone:.3f} by labels alone"
    )
    click.echo(f"next: nel judge label {run}, or label them in the viewer")
