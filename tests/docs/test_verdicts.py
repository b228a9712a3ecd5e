"""The page on verdicts has every word with the meaning that reports print, and its exit code."""

from __future__ import annotations

import re
from pathlib import Path

from nemo_evaluator.decisions.check.findings import RunStatus
from nemo_evaluator.decisions.compare.verdict import Verdict
from nemo_evaluator.decisions.gate.report import GateVerdict
from nemo_evaluator.reports._words import DECISIONS, STATUSES, VERDICTS

PAGE = Path(__file__).parents[2] / "docs/verdicts.md"


def test_each_word_has_its_one_meaning_and_exit_code() -> None:
    text = PAGE.read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]
    found = {(row[0], row[2]): row[1] for row in rows}
    for known, words in ((RunStatus, STATUSES), (Verdict, VERDICTS), (GateVerdict, DECISIONS)):
        codes = {str(one): str(one.exit_code) for one in known}  # type: ignore[attr-defined]
        assert {word: found[word, meaning] for word, meaning in words.items()} == dict.fromkeys(
            words, ""
        ) | codes


def test_no_other_word_is_used_for_a_verdict() -> None:
    gone = re.compile(r"\b(HELD|BROKE|UNFINISHED)\b|\bOPEN\b")
    root = PAGE.parents[1]
    for path in [
        *root.glob("src/nemo_evaluator/reports/**/*"),
        *root.glob("src/nemo_evaluator/decisions/**/*.py"),
        *root.glob("docs/**/*.md"),
    ]:
        if path.is_file() and path.suffix != ".pyc":
            assert not gone.findall(path.read_text()), path
