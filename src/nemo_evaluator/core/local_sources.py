"""The local modules that a user's file imports, and those that they import; found without importing them.

Counted are ``import`` and ``from`` statements anywhere in a file, also relative and inside functions,
``importlib.import_module("name")`` and ``__import__("name")``, and files below its folder that literals name: scripts,
data that the code opens, patterns of ``glob``. Where a name is computed, all modules in the folder count. Installed
packages count by their version. Files outside of the folder, and folders listed without a pattern, do not count.
"""

import ast
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path
from typing import Final

from nemo_evaluator.core.hashing import digest, digest_parts
from nemo_evaluator.core.source_texts import (
    importable_files,
    named_files,
    named_folders,
    texts_of_source,
)
from nemo_evaluator.core.values import dataclass, field

_OURS: Final = "nemo_evaluator"
_IMPORTERS: Final = frozenset({"import_module", "__import__", "reload"})
_SUFFIXES: Final = (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES, ".pyx")


@dataclass(slots=True)
class LocalSources:
    """The files of a program, by the names under which they are imported, and the installed packages that it uses."""

    files: dict[str, Path] = field(default_factory=dict)
    packages: set[str] = field(default_factory=set)

    def digest(self) -> str:
        """Return the identity of the program: the content of its files and the versions of its packages.

        It is empty for a program without either.
        """
        if not self.files and not self.packages:
            return ""
        versions = {name: _version(name) for name in sorted(self.packages)}
        return digest([self.files_digest(), versions])

    def files_digest(self) -> str:
        """Return the identity of the files alone; empty for a program without local files."""
        texts = {name: digest_parts(_text(path)) for name, path in sorted(self.files.items())}
        if texts:
            return digest(texts)
        return ""


def imported_sources(files: Iterable[Path]) -> LocalSources:
    """Find what files import, transitively.

    Args:
        files: The files; they are not part of the result.
    """
    sources = LocalSources()
    own_files = {path.resolve() for path in files}
    pending = sorted(own_files)
    visited = set(own_files)
    while pending:
        for name, imported in _imports(pending.pop(), sources.packages):
            if imported in own_files:
                continue
            sources.files[name] = imported
            if imported not in visited:
                visited.add(imported)
                pending.append(imported)
    return sources


def _imports(path: Path, packages: set[str]) -> Iterator[tuple[str, Path]]:
    """The local files that a file imports; names of installed packages are added to ``packages``."""
    if path.suffix not in SOURCE_SUFFIXES:
        return
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        # Importing it fails too; its text counts all the same.
        return
    texts = texts_of_source(tree)
    roots = _roots(path)
    if texts.changes_path:
        roots = [*named_folders(texts, path.parent), path.parent.parent, *roots]
    importers = _importers(tree)
    for node in ast.walk(tree):
        for name, folders in _names(node, path, roots, importers=importers):
            yield from _resolved(name, folders, packages, relative=folders is not roots)
    if texts.imports_by_name:
        for name in texts.names:
            yield from _resolved(name.lstrip("."), [path.parent], set(), relative=True)
    if texts.computes_names:
        yield from importable_files(path.parent)
    yield from named_files(texts, path.parent)


def _names(
    node: ast.AST, path: Path, roots: list[Path], importers: frozenset[str]
) -> Iterator[tuple[str, list[Path]]]:
    """The modules that a node may import, each with the folders to search: ``roots`` unless it is relative."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, roots
    elif isinstance(node, ast.ImportFrom):
        yield from _names_of_from(node, path, roots)
    elif isinstance(node, ast.Call) and _called(node.func) in importers:
        yield from _names_of_call(node, path, roots)


def _names_of_from(
    node: ast.ImportFrom, path: Path, roots: list[Path]
) -> Iterator[tuple[str, list[Path]]]:
    """Yield the module of a ``from`` import, and each imported name, which may be a module too."""
    folders = [_folder_above(path, node.level)] if node.level else roots
    prefix = ""
    if node.module:
        prefix = f"{node.module}."
        yield node.module, folders
    for alias in node.names:
        # Each imported name may be a module.
        yield f"{prefix}{alias.name}", folders
    if node.level and not node.module:
        yield "__init__", folders


def _names_of_call(
    call: ast.Call, path: Path, roots: list[Path]
) -> Iterator[tuple[str, list[Path]]]:
    """The module in ``import_module("name")`` or ``import_module(".name", "package")``."""
    dotted_name = _literal_argument(call, 0, "name")
    name = dotted_name.lstrip(".")
    level = len(dotted_name) - len(name)
    package = _literal_argument(call, 1, "package") if level else ""
    if package:
        parent_packages = package.split(".")[: 1 - level or None]
        yield ".".join([*parent_packages, name]), roots
    elif name and level:
        yield name, [_folder_above(path, level)]
    elif name:
        yield name, roots


def _folder_above(path: Path, level: int) -> Path:
    """The folder that ``level`` dots of a relative import mean; the root for too many dots."""
    return path.parents[min(level, len(path.parents)) - 1]


def _literal_argument(call: ast.Call, position: int, keyword: str) -> str:
    """An argument that is a literal text; empty when it is absent or computed."""
    value: ast.expr | None = None
    if len(call.args) > position:
        value = call.args[position]
    for argument in call.keywords:
        if argument.arg == keyword:
            value = argument.value
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    return ""


def _importers(tree: ast.Module) -> frozenset[str]:
    """The names of the functions that import a module by name, those that a file gives to them included."""
    aliases: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.module != "importlib":
            continue
        for alias in node.names:
            if alias.asname and alias.name in _IMPORTERS:
                aliases.add(alias.asname)
    return _IMPORTERS | aliases


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    if isinstance(function, ast.Name):
        return function.id
    return ""


def _roots(path: Path) -> list[Path]:
    """The folders of absolute imports: that of the file, the one above its package, and those of ``sys.path``."""
    folder_above = path.parent
    while (folder_above / "__init__.py").is_file() and folder_above != folder_above.parent:
        folder_above = folder_above.parent
    searched = [Path(entry or ".").resolve() for entry in sys.path]
    return list(dict.fromkeys([path.parent, folder_above, *searched]))


def _resolved(
    name: str, folders: list[Path], packages: set[str], *, relative: bool
) -> Iterator[tuple[str, Path]]:
    """The files of a module and of the packages around it, in the first folder that has the outermost of them."""
    parts = name.split(".")
    top_package = parts[0]
    if not relative and top_package == _OURS:
        return
    matching = [folder for folder in folders if _has_module(folder, top_package)]
    local_folders = [folder for folder in matching if not _is_installed(folder)]
    if local_folders:
        yield from _along(local_folders[0], parts)
    if top_package in sys.stdlib_module_names:
        return
    # Python may import the local or the installed module; either may change the verdict.
    if len(local_folders) < len(matching):
        packages.add(top_package)


def _along(folder: Path, parts: list[str]) -> Iterator[tuple[str, Path]]:
    """The files of a module and of the packages around it, below a folder."""
    for number, part in enumerate(parts, start=1):
        for suffix in _SUFFIXES:
            file = folder / f"{part}{suffix}"
            if file.is_file():
                yield ".".join(parts[:number]), file.resolve()
                break
        folder = folder / part
        if (folder / "__init__.py").is_file():
            yield ".".join([*parts[:number], "__init__"]), (folder / "__init__.py").resolve()


def _has_module(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() or any(
        (folder / f"{name}{suffix}").is_file() for suffix in _SUFFIXES
    )


@cache
def _is_installed(folder: Path) -> bool:
    if {"site-packages", "dist-packages"} & set(folder.parts):
        return True
    paths = sysconfig.get_paths()
    return any(
        folder.is_relative_to(Path(paths[kind]).resolve()) for kind in ("stdlib", "platstdlib")
    )


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "backslashreplace")


@cache
def _version(package: str) -> str:
    from importlib import metadata  # noqa: PLC0415 - slow, and only for users' own scorers

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        pass
    names = metadata.packages_distributions().get(package, [])
    return " ".join(f"{name}=={metadata.version(name)}" for name in sorted(set(names)))
