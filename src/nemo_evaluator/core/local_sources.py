"""What a user's file is made of: itself, the local modules that it imports, and theirs; found without importing them.

Counted are ``import`` and ``from`` statements anywhere in a file, also relative and inside functions,
``importlib.import_module("name")`` and ``__import__("name")`` with a literal, and literal names of Python files beside
it. Installed packages count by their version. Not counted are data files that code opens and names that are computed.
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
from nemo_evaluator.core.values import dataclass, field

_OURS: Final = "nemo_evaluator"
_IMPORTERS: Final = frozenset({"import_module", "__import__", "reload"})
_SUFFIXES: Final = (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES)


@dataclass(slots=True)
class LocalSources:
    """The files of a program, by the names under which they are imported, and the installed packages that it uses."""

    files: dict[str, Path] = field(default_factory=dict)
    packages: set[str] = field(default_factory=set)

    def digest(self) -> str:
        """Identity of the program: what its files hold, and the versions of its packages. Empty when it uses none."""
        if not self.files and not self.packages:
            return ""
        versions = {name: _version(name) for name in sorted(self.packages)}
        return digest([self.files_digest(), versions])

    def files_digest(self) -> str:
        """The same without the packages."""
        texts = {name: digest_parts(_text(path)) for name, path in sorted(self.files.items())}
        if texts:
            return digest(texts)
        return ""


def imported_sources(files: Iterable[Path]) -> LocalSources:
    """What files import, transitively; the files themselves are left out."""
    sources = LocalSources()
    own = {path.resolve() for path in files}
    waiting = sorted(own)
    seen = set(own)
    while waiting:
        path = waiting.pop()
        for name, found in _imports(path, sources.packages):
            if found in own:
                continue
            sources.files[name] = found
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    return sources


def _imports(path: Path, packages: set[str]) -> Iterator[tuple[str, Path]]:
    """The local files that a file imports; names of installed packages are added to ``packages``."""
    if path.suffix not in SOURCE_SUFFIXES:
        return
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        # Importing it is an error, too; its text counts all the same.
        return
    roots = _roots(path)
    importers = _importers(tree)
    for node in ast.walk(tree):
        for name, folders in _names(node, path, roots, importers=importers):
            yield from _resolved(name, folders, packages, relative=folders is not roots)
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.endswith(".py")
        ):
            beside = (path.parent / node.value).resolve()
            if beside.is_file():
                yield node.value, beside


def _names(
    node: ast.AST, path: Path, roots: list[Path], importers: frozenset[str]
) -> Iterator[tuple[str, list[Path]]]:
    """The modules that a piece of code may import, each with the folders in which to look."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, roots
    elif isinstance(node, ast.ImportFrom):
        folders = roots
        if node.level:
            folders = [path.parents[min(node.level, len(path.parents)) - 1]]
        prefix = f"{node.module}." if node.module else ""
        if node.module:
            yield node.module, folders
        for alias in node.names:
            # What is imported may be a module of its own.
            yield f"{prefix}{alias.name}", folders
        if node.level and not node.module:
            yield "__init__", folders
    elif isinstance(node, ast.Call) and _called(node.func) in importers:
        written = _literal_argument(node, 0, "name")
        name = written.lstrip(".")
        level = len(written) - len(name)
        if level:
            package = _literal_argument(node, 1, "package")
        else:
            package = ""
        if package:
            above = package.split(".")[: 1 - level or None]
            yield ".".join([*above, name]), roots
        elif name:
            yield name, [path.parents[min(level, len(path.parents)) - 1]] if level else roots


def _literal_argument(call: ast.Call, position: int, keyword: str) -> str:
    """An argument that is a literal text; empty when it is absent or computed."""
    if len(call.args) > position:
        value: ast.expr | None = call.args[position]
    else:
        value = None
    for given in call.keywords:
        if given.arg == keyword:
            value = given.value
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    return ""


def _importers(tree: ast.Module) -> frozenset[str]:
    """The functions that import a module by name, by the names that a file gives to them."""
    others: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "importlib":
            others |= {
                alias.asname for alias in node.names if alias.asname and alias.name in _IMPORTERS
            }
    return _IMPORTERS | others


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    if isinstance(function, ast.Name):
        return function.id
    return ""


def _roots(path: Path) -> list[Path]:
    """Where absolute imports of a file are looked for: beside it, above its package, and where Python looks."""
    above = path.parent
    while (above / "__init__.py").is_file() and above != above.parent:
        above = above.parent
    searched = [Path(entry or ".").resolve() for entry in sys.path]
    return list(dict.fromkeys([path.parent, above, *searched]))


def _resolved(
    name: str, folders: list[Path], packages: set[str], *, relative: bool
) -> Iterator[tuple[str, Path]]:
    """The files of a module and of the packages around it, in the first folder that has the outermost of them."""
    parts = name.split(".")
    first = parts[0]
    if not relative and (first == _OURS or first in sys.stdlib_module_names):
        return
    having = [folder for folder in folders if _has_module(folder, first)]
    local = next((folder for folder in having if not _is_installed(folder)), None)
    if local is not None:
        yield from _along(local, parts)
    # Where both are there, Python takes the installed one; either may change the verdict.
    if any(_is_installed(folder) for folder in having):
        packages.add(first)


def _along(folder: Path, parts: list[str]) -> Iterator[tuple[str, Path]]:
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
