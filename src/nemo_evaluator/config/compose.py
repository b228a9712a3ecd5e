"""Composition: a config file and the files it builds on (``defaults``), merged into one document."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nemo_evaluator.config._document import Document, prune_nulls
from nemo_evaluator.config._document import deep_merge as deep_merge
from nemo_evaluator.config._self_references import resolve_self_references
from nemo_evaluator.config._yaml import read_document
from nemo_evaluator.config.user_settings import config_home
from nemo_evaluator.core.errors import ConfigError
from nemo_evaluator.core.registry import did_you_mean

PACKAGED = Path(__file__).parent / "data" / "fragments"
_GROUP_KEYS = {"clusters": "cluster"}
_ENDINGS = ("", ".yaml", ".yml")


def compose_config(path: str | Path) -> dict[str, Any]:
    """The composed config as plain data: layers merged, nulls pruned, ``${.self.references}`` resolved."""
    document = resolve_self_references(compose_document(Path(path)))
    value: dict[str, Any] = drop_variables(document.value)
    return value


def drop_variables(value: dict[str, Any]) -> dict[str, Any]:
    """Leave out the top-level keys that begin with an underscore: they are variables of the author."""
    return {key: item for key, item in value.items() if not key.startswith("_")}


def compose_document(path: Path) -> Document:
    """All layers of a config file merged; references are not resolved yet."""
    search = [path.parent / "conf", config_home() / "conf", PACKAGED]
    return _Composer([folder for folder in search if folder.is_dir()]).compose(path, ())


class _Composer:
    """Follows ``defaults`` lists. A file that is reached twice by different ways (a diamond) is fine; a loop is not."""

    def __init__(self, search: list[Path]) -> None:
        self.search = search

    def compose(self, path: Path, above: tuple[Path, ...]) -> Document:
        resolved = _resolved(path)
        document = as_mapping(read_document(path), path)
        if resolved in above:
            loop = " -> ".join(step.name for step in (*above[above.index(resolved) :], resolved))
            message = f"files build on each other in a circle: {loop}"
            problem = document.problem(("defaults",), message, "remove one of these _base_ entries")
            raise ConfigError([problem], source=str(path))
        if "defaults" not in document.value:
            return document
        layers = self._layers(document, path, (*above, resolved))
        merged = Document({})
        for layer in layers:
            merged = layer.over(merged)
        return Document(prune_nulls(merged.value), merged.marks)

    def _layers(self, document: Document, path: Path, above: tuple[Path, ...]) -> list[Document]:
        entries = document.value["defaults"]
        body = Document({key: value for key, value in document.value.items() if key != "defaults"}, document.marks)
        if not isinstance(entries, list):
            raise ConfigError(
                [document.problem(("defaults",), "must be a list", "write - group/name, - _base_: name, or - _self_")],
                source=str(path),
            )
        layers: list[Document] = []
        own_place: int | None = None
        problems = []
        for number, entry in enumerate(entries):
            if entry == "_self_":
                own_place = len(layers) if own_place is None else own_place
                continue
            try:
                layers.append(self._layer(entry, number, document, path, above))
            except ConfigError as error:
                problems.extend(error.problems)
        if problems:
            raise ConfigError(problems, source=str(path))
        layers.insert(len(layers) if own_place is None else own_place, body)
        return layers

    def _layer(self, entry: Any, number: int, document: Document, path: Path, above: tuple[Path, ...]) -> Document:
        place = ("defaults", number)
        if isinstance(entry, dict) and list(entry) == ["_base_"] and isinstance(entry["_base_"], str):
            return self.compose(self._find(entry["_base_"], [path.parent, *self.search], document, place), above)
        if not isinstance(entry, str) or not entry:
            hint = "write - group/name, - _base_: name, or - _self_"
            raise ConfigError([document.problem(place, "is not an entry of defaults", hint)], source=str(path))
        found = self._find(entry, self.search, document, place)
        fragment = read_document(found)
        group, slash, _ = entry.partition("/")
        if slash:
            return fragment.under((_GROUP_KEYS.get(group, group),))
        return as_mapping(fragment, found)

    def _find(self, name: str, folders: Iterable[Path], document: Document, place: tuple[str | int, ...]) -> Path:
        folders = list(dict.fromkeys(folders))
        for folder in folders:
            for ending in _ENDINGS:
                candidate = folder / f"{name}{ending}"
                if _is_file(candidate):
                    return candidate
        tried = ", ".join(str(folder) for folder in folders) or "no folder exists"
        hint = did_you_mean(name, sorted(_names_in(folders)), f"looked in: {tried}")
        raise ConfigError([document.problem(place, f"no file for {name!r}", hint)])


def _names_in(folders: Iterable[Path]) -> set[str]:
    names: set[str] = set()
    for folder in folders:
        for file in (*folder.glob("*.y*ml"), *folder.glob("*/*.y*ml")):
            names.add(str(file.relative_to(folder).with_suffix("")))
    return names


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        return path.absolute()


def as_mapping(document: Document, path: Path | None) -> Document:
    """The document itself, when it is a mapping; a ConfigError otherwise."""
    if isinstance(document.value, dict):
        return document
    found = "nothing" if document.value is None else f"a {type(document.value).__name__}"
    hint = "a config starts with services: and benchmarks:"
    problem = document.problem((), f"must be a mapping at the top, found {found}", hint)
    raise ConfigError([problem], source=str(path) if path else None)
