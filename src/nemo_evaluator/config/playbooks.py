"""Playbooks: benchmark entries with tested settings, named by ``playbook: NAME`` and overridden key by key."""

from pathlib import Path
from typing import Any

from nemo_evaluator.config._document import Document, deep_merge
from nemo_evaluator.config._yaml import read_document
from nemo_evaluator.core.errors import ConfigError, Problem
from nemo_evaluator.core.registry import did_you_mean

PACKAGED = Path(__file__).parent / "data" / "playbooks"
_ENDINGS = ("", ".yaml", ".yml")


def playbook_names() -> list[str]:
    """The packaged playbooks."""
    return sorted(file.stem for file in PACKAGED.glob("*.yaml"))


def expand_playbooks(document: Document, beside: Path) -> Document:
    """The document with every ``playbook`` entry laid over its playbook. Files are found beside the config too."""
    benchmarks = document.value.get("benchmarks")
    if not isinstance(benchmarks, list):
        return document
    marks = dict(document.marks)
    entries: list[Any] = []
    problems: list[Problem] = []
    for number, entry in enumerate(benchmarks):
        if not isinstance(entry, dict) or "playbook" not in entry:
            entries.append(entry)
            continue
        try:
            playbook = _load(entry["playbook"], document, number, beside)
        except ConfigError as error:
            problems.extend(error.problems)
            entries.append({key: value for key, value in entry.items() if key != "playbook"})
            continue
        own = {key: value for key, value in entry.items() if key != "playbook"}
        entries.append(deep_merge(playbook.value, own))
        for path, mark in playbook.under(("benchmarks",)).marks.items():
            marks.setdefault(("benchmarks", number, *path[1:]), mark)
    if problems:
        raise ConfigError(problems)
    return Document({**document.value, "benchmarks": entries}, marks)


def _load(name: Any, document: Document, number: int, beside: Path) -> Document:
    place = ("benchmarks", number, "playbook")
    if not isinstance(name, str) or not name:
        raise ConfigError([document.problem(place, "a name is expected", f"known: {', '.join(playbook_names())}")])
    for folder in (PACKAGED, Path(), beside):
        for ending in _ENDINGS:
            candidate = folder / f"{name}{ending}"
            if "\x00" not in name and candidate.is_file():
                playbook = read_document(candidate)
                if isinstance(playbook.value, dict):
                    return playbook
                problem = document.problem(place, f"{candidate} is not a mapping", "a playbook is one benchmark entry")
                raise ConfigError([problem])
    hint = did_you_mean(name, playbook_names())
    raise ConfigError([document.problem(place, f"no playbook is called {name!r}", hint)])
