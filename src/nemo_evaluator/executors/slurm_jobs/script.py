"""The batch script of a plan: directives, then the plan's values as shell variables, then ``job.sh`` as it stands.

Every value is quoted once, here.
"""

import shlex
from collections.abc import Iterable
from importlib.resources import files
from typing import Final

from nemo_evaluator.core.files import dumps
from nemo_evaluator.executors.slurm_jobs.plan import SECRETS, Directive, JobPlan, Pool
from nemo_evaluator.services.steps import NODES, SHARED, STEP

_BODY: Final = "job.sh"


def render(plan: JobPlan) -> str:
    """The text of the script. It holds no secret."""
    lines = ["#!/bin/bash", *_header(plan), "", f"# Run {plan.run_id}; `nel eval resume` writes this file anew."]
    lines += _variables(plan)
    lines += _function("activate", _activate(plan.conda_env))
    lines += _function("place", _place(plan.pools))
    body = files(__package__).joinpath(_BODY).read_text(encoding="utf-8")
    return "\n".join([*lines, "", body])


def _header(plan: JobPlan) -> Iterable[str]:
    common: list[Directive] = [
        ("job-name", plan.name),
        ("output", f"{plan.root}/logs/slurm-%j.log"),
        ("open-mode", "append"),
        # Follow-up jobs take its place: they start at once, and elsewhere.
        ("no-requeue", None),
        ("signal", f"B:USR1@{plan.closing}"),
        *plan.directives,
    ]
    for number, pool in enumerate(plan.pools):
        yield from () if number == 0 else ["#SBATCH hetjob"]
        yield from (_directive(one) for one in [*(common if number == 0 else ()), *pool.directives])


def _directive(one: Directive) -> str:
    flag, value = one
    return f"#SBATCH --{flag}" if value is None else f"#SBATCH --{flag}={shlex.quote(value)}"


def _variables(plan: JobPlan) -> Iterable[str]:
    values = {
        "root": str(plan.root),
        "run_id": plan.run_id,
        "secrets": SECRETS,
        "shards": plan.shards,
        "auto_resume": int(plan.auto_resume),
        "max_retries": plan.max_retries,
        "walltime": plan.walltime,
        "max_walltime": plan.max_walltime,
    }
    yield from (f"{name}={shlex.quote(str(value))}" for name, value in values.items())
    step = {"container": plan.step.container, "mounts": plan.step.mounts, "mount_home": plan.step.mount_home}
    shared = " ".join(plan.container_env)
    yield f"export {STEP}={shlex.quote(dumps(step).decode())} {SHARED}={shlex.quote(shared)}"
    for name, words in {"step": plan.container, "worker": plan.worker, "merge": plan.merge}.items():
        # A comma outside quotes looks like a slip of somebody who writes arrays in another language.
        quoted = (f"'{word}'" if "," in word and shlex.quote(word) == word else shlex.quote(word) for word in words)
        yield f"{name}=({' '.join(quoted)})"


def _activate(conda_env: str | None) -> list[str]:
    if conda_env is None:
        return [":"]
    return [
        "# shellcheck source=/dev/null",
        '. "$(conda info --base)/etc/profile.d/conda.sh"',
        f"conda activate {shlex.quote(conda_env)}",
    ]


def _place(pools: tuple[Pool, ...]) -> Iterable[str]:
    """The nodes of each pool as ``services/steps.py`` reads them, and those for sandboxes."""
    yield f"export {NODES}="
    for pool in pools:
        variable = "SLURM_JOB_NODELIST" + ("" if pool.group is None else f"_HET_GROUP_{pool.group}")
        group = "" if pool.group is None else str(pool.group)
        yield f'{NODES}+={shlex.quote(f"{pool.name}={group}:")}"$(nodes_of "${variable}")"$\'\\n\''
        if pool.sandboxes:
            yield f'NEL_SANDBOX_NODES=$(scontrol show hostnames "${variable}" | paste -sd, -)'
            yield f"export NEL_SANDBOX_NODES NEL_SANDBOX_HET_GROUP={group}"


def _function(name: str, lines: Iterable[str]) -> list[str]:
    return [f"{name}() {{", *(f"  {line}" for line in lines), "}"]
