"""One generic registry: lazy targets, entry points, "did you mean" on a miss, an error on a collision."""

import importlib
import importlib.util
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Generic, TypeVar, cast

from nemo_evaluator.core.errors import UsageError

T = TypeVar("T")
# The folder of the config that was loaded last: files that it names lie beside it.
config_folder: ContextVar[Path | None] = ContextVar("config_folder", default=None)


def nearest(word: str, words: list[str]) -> str | None:
    """Return the closest of ``words`` to ``word``; None when none is close."""
    import difflib  # noqa: PLC0415 - only for a mistake

    # Reversed, so that the first of several names that differ only in case stays.
    original_of = {name.lower(): name for name in reversed(words)}
    matches = difflib.get_close_matches(word.lower(), list(original_of), n=1, cutoff=0.6)
    return original_of[matches[0]] if matches else None


def did_you_mean(
    word: str,
    words: Iterable[str],
    otherwise: str | None = None,
    *,
    also: str = "",
    form: str = "{!r}",
) -> str:
    """Write a hint for an unknown name.

    Args:
        word: The unknown name.
        words: The known names.
        otherwise: The hint when no known name is close; by default a list of all of them, unless there is ``also``.
        also: A sentence that follows in either case.
        form: How the hint writes a name.
    """
    known_names = [str(name) for name in words]
    close = nearest(word, known_names)
    if close is not None:
        hint = f"did you mean {form.format(close)}?"
    elif otherwise is not None:
        hint = otherwise
    elif also:
        hint = ""
    else:
        hint = f"known: {', '.join(known_names) or 'none'}"
    return f"{hint} {also}".strip()


def load_object(target: str) -> Any:
    """Import an object by its name.

    Args:
        target: ``package.module:attribute``, ``package.module.attribute`` or ``file.py:attribute``. The file is
            searched in the folder of the config (``config_folder``), then in the current one.

    Raises:
        UsageError: The target does not name an object, or cannot be imported.
    """
    if ":" in target:
        module, _, attribute = target.partition(":")
    else:
        module, _, attribute = target.rpartition(".")
    if module.endswith(".py"):
        return load_from_file(module, attribute)
    if not module or not attribute:
        raise UsageError(
            f"{target!r} does not name an object",
            hint="write it as package.module:Name or file.py:Name",
        )
    try:
        imported_module = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"cannot import {module!r}: {error}",
            hint="is the package installed, and on PYTHONPATH?",
        ) from error
    value: Any = imported_module
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise UsageError(f"{module!r} has no attribute {attribute!r}")
        value = getattr(value, part)
    return value


def find_file(file: str | Path, folder: Path | None = None) -> Path:
    """Find a file that a config names.

    Args:
        file: The path as the config writes it.
        folder: The folder to search first; by default that of the config (``config_folder``).

    Returns:
        The file in that folder, or else in the current one.

    Raises:
        UsageError: There is no such file.
    """
    folders: list[Path] = []
    for candidate in (folder or config_folder.get(), Path.cwd()):
        if candidate is not None:
            folders.append(candidate.resolve())
    relative = Path(file).expanduser()
    for parent in folders:
        path = parent / relative
        if path.is_file():
            return path.resolve()
    searched = " and ".join(map(str, dict.fromkeys(folders)))
    raise UsageError(f"there is no file {file}", hint=f"looked in {searched}")


def load_from_file(file: str, attribute: str, folder: Path | None = None) -> Any:
    """Load an attribute of a Python file, which is imported once and may import its neighbours.

    Raises:
        UsageError: There is no such file, it is not a Python file, or it lacks the attribute.
    """
    path = find_file(file, folder)
    module = load_file(path)
    if not hasattr(module, attribute):
        raise UsageError(f"{path} has no {attribute!r}", hint=f"write it as {file}:Name")
    return getattr(module, attribute)


def load_file(path: Path) -> ModuleType:
    """Import a user's Python file, once. nel imports such files in no other way.

    If the file raises, its module and those of neighbours that it just imported are removed, so that it can be imported
    again once it is fixed.

    Raises:
        UsageError: It is not a Python file.
    """
    with LOADING:
        return _load_file(path)


# Held while a user's file is imported: another thread finds the whole module or none.
LOADING: Final = threading.RLock()


def _load_file(path: Path) -> ModuleType:
    """Import a file unless it is imported already; the caller holds ``LOADING``.

    A failed import removes the module, and the neighbours that it imported, from ``sys.modules``.
    """
    name = f"nel_file_{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    module = sys.modules.get(name)
    if module is not None:
        return module
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file", hint="such a file ends in .py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    folder = str(path.parent)
    _forget_namesakes(path.parent)
    if folder not in sys.path:
        # At the end: it must not hide installed libraries.
        sys.path.append(folder)
        _user_folders.append(folder)
    names_before = set(sys.modules)
    try:
        with _first_among_user_folders(folder):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        for new_name in set(sys.modules) - names_before:
            if _folder_of(sys.modules[new_name]) == path.parent:
                del sys.modules[new_name]
        raise
    return module


# Folders of users' files, in the order in which they came on the path.
_user_folders: list[str] = []


@contextmanager
def _first_among_user_folders(folder: str) -> Iterator[None]:
    """While a file is imported, let modules in its folder take precedence over those in folders of other files."""
    other_folders = [
        folder_on_path
        for folder_on_path in _user_folders
        if folder_on_path != folder and folder_on_path in sys.path
    ]
    for folder_on_path in other_folders:
        sys.path.remove(folder_on_path)
    try:
        yield
    finally:
        sys.path.extend(other_folders)


def _forget_namesakes(folder: Path) -> None:
    """Forget modules that were imported from the folder of another file and have a namesake in this folder."""
    for name, module in list(sys.modules.items()):
        module_folder = _folder_of(module)
        if (
            module_folder is None
            or module_folder == folder
            or str(module_folder) not in _user_folders
        ):
            continue
        if (folder / f"{name}.py").is_file() or (folder / name).is_dir():
            del sys.modules[name]


def _folder_of(module: ModuleType) -> Path | None:
    """Return the folder of a top-level module or package; None for others."""
    file = getattr(module, "__file__", None)
    if not file or "." in module.__name__:
        return None
    path = Path(file)
    return path.parent.parent if path.name == "__init__.py" else path.parent


class Registry(Generic[T]):
    """Objects of one kind by their names.

    A target is the object itself, or ``"package.module:Name"``, imported on first use. Other packages add theirs
    through the entry points of ``group``.
    """

    def __init__(self, kind: str, *, group: str | None = None) -> None:
        self.kind = kind
        self._group = group
        self._targets: dict[str, T | str] = {}
        self._scanned = False

    def add(self, name: str, target: T | str, *, replace: bool = False) -> None:
        """Register a target.

        Args:
            name: Its name.
            target: The object, or where to import it from.
            replace: Replace another target of this name.

        Raises:
            UsageError: The name has another target, and ``replace`` is false.
        """
        registered = self._targets.get(name)
        if registered is not None and registered != target and not replace:
            raise UsageError(
                f"{self.kind} {name!r} is registered twice", hint="rename one of the two"
            )
        self._targets[name] = target

    def get(self, name: str) -> T:
        """Return the object called ``name``, imported if necessary.

        Raises:
            UsageError: There is no such name.
        """
        if name not in self:
            raise UsageError(f"unknown {self.kind} {name!r}", hint=did_you_mean(name, self.names()))
        target = self._targets[name]
        if isinstance(target, str):
            target = cast(T, load_object(target))
            self._targets[name] = target
        return target

    def names(self) -> list[str]:
        """Return all names, sorted; those of entry points included."""
        self._scan()
        return sorted(self._targets)

    def knows(self, name: str) -> bool:
        """Return whether a name was added in this process; entry points are not searched."""
        return name in self._targets

    def __contains__(self, name: object) -> bool:
        if name not in self._targets:
            self._scan()
        return name in self._targets

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def _scan(self) -> None:
        if self._scanned:
            return
        self._scanned = True
        if self._group is not None:
            from importlib.metadata import entry_points  # noqa: PLC0415 - a heavy module, needed on a miss only

            for point in entry_points(group=self._group):
                self.add(point.name, point.value)
