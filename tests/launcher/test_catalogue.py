"""Names of tasks: which of them need their harness, and how the list of them looks."""

from __future__ import annotations

import pytest
from nel_support import Nel

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.launcher.catalogue import catalogue, find_task

# Those that the launcher's documentation lists.
_AMBIGUOUS = [
    "mmlu",
    "ifeval",
    "mmlu_pro",
    "humaneval_instruct",
    "mgsm",
    "ifbench",
    "humaneval",
    "humanevalplus",
]
_AMBIGUOUS += ["gpqa_diamond", "scicode", "hle"]


@pytest.mark.parametrize("name", _AMBIGUOUS)
def test_a_name_that_several_harnesses_have_is_refused_with_all_of_them(name: str) -> None:
    with pytest.raises(UsageError, match="ambiguous") as caught:
        find_task(name)
    suggested = str(caught.value.hint).removeprefix("write one of: ").split(", ")
    assert len(suggested) > 1
    assert [find_task(one).full_name for one in suggested] == suggested
    assert find_task(name, "registry/image:1").container == f"container://registry/image:1#{name}"


def test_the_list_fits_a_terminal_and_has_every_task(nel: Nel) -> None:
    nel.env["COLUMNS"] = "80"
    lines = nel("ls", "tasks").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert {one.harness for one in catalogue()} <= set(lines)
    named = [line.split()[0] for line in lines if "  " in line]
    assert {one.name for one in catalogue()} <= set(named)
