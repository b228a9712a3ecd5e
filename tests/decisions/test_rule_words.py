"""What is said of a stop rule, also of one that an older or a stranger bundle tells of."""

from typing import Any

import pytest

from nemo_evaluator.decisions.stop_words import rule_words
from nemo_evaluator.statistics import PLANNED, spending_of

RULE = {"interval_width": None, "min_problems": 30, "decided_against": "base", "max_drop": 0.05}


@pytest.mark.parametrize(
    ("stopped", "words"),
    [
        (None, ""),
        ({"kind": "budget", "reason": "spent"}, ""),
        ({"kind": "rule", "reason": "narrow"}, "stopped: narrow"),
        (
            {
                "kind": "rule",
                "rule": {
                    "rule": RULE | {"interval_width": 0.1},
                    "stopped": True,
                    "problems": 40,
                    "planned": 100,
                    "saved_share": 0.52,
                    "reason": "worse than base by more than 0.05: proved",
                },
            },
            "stop when the interval is at most 0.1 wide or it is settled whether the drop from base is more than 0.05; "
            "stopped after 40 of 100 problems, 52% saved: worse than base by more than 0.05: proved",
        ),
        (
            {"rule": {"rule": RULE, "stopped": False, "decision": "not worse", "note": "a word"}},
            "stop when it is settled whether the drop from base is more than 0.05; "
            "the run was not stopped; at the last look: not worse; a word",
        ),
        (
            {"rule": {"note": "an earlier session had one"}},
            "the run was not stopped; an earlier session had one",
        ),
        (
            {"rule": {"moved_from": [100]}},
            "the run was not stopped; its planned end was moved from 100 problems",
        ),
    ],
)
def test_words(stopped: Any, words: str) -> None:
    assert rule_words(stopped) == words


@pytest.mark.parametrize("stopped", ["rule", [1], 7, True])
def test_strange_bundles_have_no_rule(stopped: Any) -> None:
    assert rule_words(stopped) == ""
    assert spending_of(stopped) == PLANNED


def test_strange_rules_break_nothing() -> None:
    odd = {
        "rule": {
            "rule": {"interval_width": "x", "decided_against": 3},
            "stopped": 1,
            "saved_share": "all",
        }
    }
    assert "stopped after None of None problems" in rule_words(odd)
