"""Composition: merges a config file and the files it builds on (``defaults``, ``playbook``) into one document."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nemo_evaluator.config._document import Document, prune_nulls
from nemo_evaluator.config._document import Path as ConfigPath
from nemo_evaluator.config._document import deep_merge as deep_merge
from nemo_evaluator.config._references import resolve_self_references
from nemo_evaluator.config._yaml import read_document
from nemo_evaluator.config.user_settings import config_home
from nemo_evaluator.core.errors import ConfigError, Problem
from nemo_evaluator.core.registry import did_you_mean

_FRAGMENTS = Path(__file__).parent / "data" / "fragments"
PLAYBOOKS = Path(__file__).parent / "data" / "playbooks"
_GROUP_KEYS = {"clusters": "cluster"}
_ENDINGS = ("", ".yaml", ".yml")
# Groups of the defaults list in configs of the launcher.
_LAUNCHER_GROUPS = ("execution", "deployment")
_ENTRIES = "write - group/name, - _base_: name, or - _self_"


def compose_config(path: str | Path) -> dict[str, Any]:
    """Return a composed config as plain data: files merged, nulls removed, ``${.references}`` resolved."""
    return drop_variables(resolve_self_references(compose_document(Path(path))).value)


def drop_variables(value: dict[str, Any]) -> dict[str, Any]:
    """Remove the top-level keys that begin with an underscore: they are variables for references."""
    return {key: item for key, item in value.items() if not key.startswith("_")}


def compose_document(path: Path) -> Document:
    """Merge all layers of a config file; references are not resolved yet."""
    folders = [path.parent / "conf", config_home() / "conf", _FRAGMENTS]
    return _compose(path, [folder for folder in folders if folder.is_dir()], ())


def as_mapping(document: Document, path: Path | None) -> Document:
    """Return the document if it is a mapping.

    Raises:
        ConfigError: If it is anything else.
    """
    if isinstance(document.value, dict):
        return document
    type_name = "nothing"
    if document.value is not None:
        type_name = f"a {type(document.value).__name__}"
    hint = "a config starts with services: and benchmarks:"
    raise document.error((), f"must be a mapping at the top, found {type_name}", hint, source=path)


def _compose(path: Path, search: list[Path], above: tuple[Path, ...]) -> Document:
    """Merge a file with its ``defaults``. The same file may be reached along several paths, but not from itself.

    Raises:
        ConfigError: If files build on each other in a circle.
    """
    document = as_mapping(read_document(path), path)
    resolved = path.resolve()
    if resolved in above:
        cycle = " -> ".join(step.name for step in (*above[above.index(resolved) :], resolved))
        message = f"files build on each other in a circle: {cycle}"
        raise document.error(
            ("defaults",), message, "remove one of these _base_ entries", source=path
        )
    if "defaults" not in document.value:
        return document
    merged = Document({})
    for layer in _layers(document, path, search, above=(*above, resolved)):
        merged = layer.over(merged)
    return Document(prune_nulls(merged.value), merged.marks)


def _layers(
    document: Document, path: Path, search: list[Path], above: tuple[Path, ...]
) -> list[Document]:
    """Return the layers of a file, lowest first: its ``defaults`` in order, and its own keys at ``_self_`` or last."""
    entries = document.value["defaults"]
    if not isinstance(entries, list):
        raise document.error(("defaults",), "must be a list", _ENTRIES, source=path)
    layers: list[Document] = []
    own_position: int | None = None
    problems: list[Problem] = []
    for index, entry in enumerate(entries):
        if entry == "_self_":
            if own_position is None:
                own_position = len(layers)
            continue
        place = ("defaults", index)
        try:
            layer = _layer(entry, document, place, path=path, search=search, above=above)
        except ConfigError as error:
            problems.extend(error.problems)
            continue
        layers.append(layer)
    if problems:
        raise ConfigError(problems, source=str(path))
    if own_position is None:
        own_position = len(layers)
    own_keys = {key: value for key, value in document.value.items() if key != "defaults"}
    layers.insert(own_position, Document(own_keys, document.marks))
    return layers


def _layer(
    entry: Any,
    document: Document,
    place: ConfigPath,
    *,
    path: Path,
    search: list[Path],
    above: tuple[Path, ...],
) -> Document:
    """Return the document that one entry of ``defaults`` names: ``{_base_: name}``, ``group/name`` or ``name``."""
    if isinstance(entry, dict) and len(entry) == 1 and isinstance(entry.get("_base_"), str):
        base_folders = [path.parent, *search]
        base_file = _find_or_raise(entry["_base_"], base_folders, document, place=place)
        return _compose(base_file, search, above)
    if isinstance(entry, dict) and not entry.keys().isdisjoint(_LAUNCHER_GROUPS):
        message = "belongs to a config of the NeMo Evaluator Launcher"
        hint = "use: nel run --config FILE; its --convert NEW writes a config of nel"
        raise document.error(place, message, hint)
    if not isinstance(entry, str) or not entry:
        raise document.error(place, "is not an entry of defaults", _ENTRIES)
    file = _find_or_raise(entry, search, document, place=place)
    fragment = read_document(file)
    group, slash, _ = entry.partition("/")
    if slash:
        return fragment.under(_GROUP_KEYS.get(group, group))
    return as_mapping(fragment, file)


def _find_or_raise(
    name: str, folders: Iterable[Path], document: Document, place: ConfigPath
) -> Path:
    """Return the file that an entry of ``defaults`` names.

    Raises:
        ConfigError: If there is none; with a similar name, or the searched folders.
    """
    folders = list(dict.fromkeys(folders))
    path = _find(name, folders)
    if path is not None:
        return path
    names: set[str] = set()
    for folder in folders:
        for pattern in ("*.y*ml", "*/*.y*ml"):
            for file in folder.glob(pattern):
                names.add(str(file.relative_to(folder).with_suffix("")))
    searched = ", ".join(map(str, folders)) or "no folder exists"
    hint = did_you_mean(name, sorted(names), f"looked in: {searched}")
    raise document.error(place, f"no file for {name!r}", hint)


def _find(name: str, folders: Sequence[Path]) -> Path | None:
    for folder in folders:
        for ending in _ENDINGS:
            path = folder / f"{name}{ending}"
            # Unlike Path.is_file, this does not raise for an invalid file name.
            if os.path.isfile(path):  # noqa: PTH113
                return path
    return None


def playbook_names() -> list[str]:
    """Return the names of the packaged playbooks, which are benchmark entries with tested settings."""
    return sorted(file.stem for file in PLAYBOOKS.glob("*.yaml"))


def expand_playbooks(document: Document, beside: Path) -> Document:
    """Merge every ``playbook: NAME`` entry over its playbook.

    Args:
        document: The config.
        beside: The folder of the config, where playbooks are searched too.

    Raises:
        ConfigError: With one problem per unknown or invalid playbook.
    """
    benchmarks = document.value.get("benchmarks")
    if not isinstance(benchmarks, list):
        return document
    marks = dict(document.marks)
    entries: list[Any] = []
    problems: list[Problem] = []
    for index, entry in enumerate(benchmarks):
        if not isinstance(entry, dict) or "playbook" not in entry:
            entries.append(entry)
            continue
        playbook_path = ("benchmarks", index, "playbook")
        try:
            playbook = _playbook(entry["playbook"], document, playbook_path, beside=beside)
        except ConfigError as error:
            problems.extend(error.problems)
            continue
        own_keys = {key: item for key, item in entry.items() if key != "playbook"}
        entries.append(deep_merge(playbook.value, own_keys))
        for path, mark in playbook.marks.items():
            marks.setdefault(("benchmarks", index, *path), mark)
    if problems:
        raise ConfigError(problems)
    return Document({**document.value, "benchmarks": entries}, marks)


def _playbook(name: Any, document: Document, place: ConfigPath, beside: Path) -> Document:
    """Read a playbook, which may be packaged or in a file.

    Raises:
        ConfigError: If it is unknown, or is not a mapping.
    """
    if not isinstance(name, str) or not name:
        raise document.error(place, "a name is expected", f"known: {', '.join(playbook_names())}")
    path = _find(name, (PLAYBOOKS, Path(), beside))
    if path is None:
        raise document.error(
            place, f"no playbook is called {name!r}", did_you_mean(name, playbook_names())
        )
    playbook = read_document(path)
    if not isinstance(playbook.value, dict):
        raise document.error(place, f"{path} is not a mapping", "a playbook is one benchmark entry")
    return playbook
