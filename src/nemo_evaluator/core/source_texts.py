"""What the literal texts of a Python file name: files, folders, and modules that are imported by computed names.

They are looked for in the folder of the file, and in folders below it that other literals name
(``HERE / "data" / "a.csv"``). A ``dataset=`` is not part of a program: its rows have fingerprints of their own.
"""

import ast
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from nemo_evaluator.core.values import dataclass, field

# Functions that import, or list, modules whose names may be computed.
_IMPORTERS: Final = frozenset(
    {
        *("import_module", "__import__", "reload", "run_module", "find_spec", "iter_modules"),
        *("walk_packages", "attach", "attach_stub", "resolve_name"),
    }
)
_LONGEST_NAME: Final = 200
_MOST_MATCHES: Final = 1_000
_GLOB_SIGNS: Final = frozenset("*?[")


@dataclass(slots=True)
class SourceTexts:
    """What the literals of one file name.

    Attributes:
        names: The literals that may name a file, a folder or a module.
        imports_by_name: Whether the file imports modules by names that it may compute.
        changes_path: Whether the file refers to ``sys.path``.
        computes_names: Whether a name of a module is put together at run time.
    """

    names: dict[str, None] = field(default_factory=dict)
    imports_by_name: bool = False
    changes_path: bool = False
    computes_names: bool = False


def texts_of_source(tree: ast.Module) -> SourceTexts:
    """Collect what the literals of a file name, without those of its dataset."""
    texts = SourceTexts()
    skipped = _dataset_nodes(tree)
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if node in skipped:
            continue
        _add(node, texts)
        pending.extend(ast.iter_child_nodes(node))
    return texts


def named_files(texts: SourceTexts, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files that literals name, below the folder of the source file."""
    for parent in named_folders(texts, folder):
        for name in texts.names:
            if _GLOB_SIGNS & set(name):
                yield from _matching(name, parent)
                continue
            file = parent / name
            if file.is_file():
                yield name, file.resolve()


def named_folders(texts: SourceTexts, folder: Path) -> list[Path]:
    """Return the folder of a file, and those below it that its literals name."""
    folders = [folder]
    plain_names = [name for name in texts.names if not _GLOB_SIGNS & set(name)]
    for parent in folders:
        for name in plain_names:
            candidate = parent / name
            is_new = candidate not in folders and candidate.resolve() != parent.resolve()
            if is_new and len(folders) < _MOST_MATCHES and candidate.is_dir():
                folders.append(candidate)
    return folders


def importable_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the Python files beside a file that computes the names of the modules it imports."""
    for number, file in enumerate(sorted(folder.glob("*.py"))):
        if number == _MOST_MATCHES:
            return
        yield file.name, file.resolve()


def _add(node: ast.AST, texts: SourceTexts) -> None:
    """Note what one node says."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if _may_be_name(node.value):
            texts.names[node.value] = None
        if node.value == "-m":
            texts.imports_by_name = True
    elif isinstance(node, ast.Attribute | ast.Name):
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        texts.imports_by_name = texts.imports_by_name or name in _IMPORTERS
        owner = getattr(node, "value", None)
        if name == "path" and isinstance(owner, ast.Name) and owner.id == "sys":
            texts.changes_path = True
    elif isinstance(node, ast.Call) and _is_computed_import(node):
        texts.computes_names = True


def _is_computed_import(call: ast.Call) -> bool:
    """Whether a call imports a module whose name is not one literal."""
    function = call.func
    name = getattr(function, "attr", getattr(function, "id", ""))
    if name in ("iter_modules", "walk_packages", "attach_stub"):
        return True
    if name not in ("import_module", "__import__", "run_module", "find_spec"):
        return False
    return bool(call.args) and isinstance(call.args[0], ast.JoinedStr | ast.BinOp | ast.Call)


def _may_be_name(text: str) -> bool:
    """Whether a text can name something below a folder: neither long, nor absolute, nor above it."""
    if not 0 < len(text) <= _LONGEST_NAME or "\0" in text or text in (".", "*"):
        return False
    has_spaces = len(text.split()) > 1
    if has_spaces and not PurePosixPath(text).suffix:
        # A sentence.
        return False
    path = PurePosixPath(text)
    return not path.is_absolute() and ".." not in path.parts


def _matching(pattern: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder that match a pattern; a text that is not a pattern matches none."""
    if "**" in pattern:
        return
    try:
        matches = sorted(folder.glob(pattern))
    except (ValueError, NotImplementedError):
        return
    for file in matches[:_MOST_MATCHES]:
        if file.is_file():
            yield str(file.relative_to(folder)), file.resolve()


def _dataset_nodes(tree: ast.Module) -> set[ast.AST]:
    """The values of ``dataset=``, and the functions that they name."""
    values: set[ast.AST] = set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "dataset":
            values.add(node.value)
            if isinstance(node.value, ast.Name):
                names.add(node.value.id)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in names:
            values.add(node)
    return values
