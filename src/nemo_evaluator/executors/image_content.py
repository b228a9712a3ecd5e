"""Selects the files of a benchmark folder for an image: no secrets, and no links that leave the folder."""

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.secret_files import secret_folder, why_secret_content, why_secret_name
from nemo_evaluator.core.secret_values import url_parts
from nemo_evaluator.core.wording import counted

_IGNORED: Final = frozenset(
    {"__pycache__", ".venv", "eval_results", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
_MOST_LISTED: Final = 200


@dataclass(slots=True)
class ImageContent:
    """The selected files of a folder.

    Attributes:
        root: The folder.
        files: Files to copy, relative to the root.
        links: Targets of symbolic links, by the link's path.
        left_out: Reasons for leaving files out, by path.
    """

    root: Path
    files: list[Path] = field(default_factory=list)
    links: dict[Path, str] = field(default_factory=dict)
    left_out: dict[Path, str] = field(default_factory=dict)

    def copy_to(self, target: Path) -> None:
        """Copy the files and links to another folder.

        Modes are kept; links become relative, so that they stay in the copy.
        """
        target.mkdir(parents=True, exist_ok=True)
        for path in self.files:
            copy = target / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.root / path, copy, follow_symlinks=False)
        for path, leads_to in self.links.items():
            copy = target / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.symlink_to(leads_to)

    def listing(self) -> str:
        """Return a text that lists the files that are copied and those left out."""
        included = [str(path) for path in self.files]
        for path, target in self.links.items():
            included.append(f"{path} -> {target}")
        included.sort()
        lines = [f"goes into the image: {counted(len(included), 'file')} of {self.root}"]
        for name in included[:_MOST_LISTED]:
            lines.append(f"  {name}")
        if len(included) > _MOST_LISTED:
            lines.append(f"  and {len(included) - _MOST_LISTED} more")
        if self.left_out:
            lines.append("left out:")
        for path, reason in sorted(self.left_out.items()):
            lines.append(f"  {path}: {reason}")
        return "\n".join(lines)


def folder_content(root: Path, include: Sequence[str] = ()) -> ImageContent:
    """Select the files of a folder.

    Args:
        root: The folder.
        include: Patterns of files to copy although they look like secrets.

    Raises:
        UsageError: If links lead out of the folder; the message names all of them.
    """
    content = ImageContent(root.resolve())
    leaving: list[str] = []
    for path in _walk(content):
        relative = path.relative_to(content.root)
        if path.is_symlink():
            _add_link(content, relative, leaving)
            continue
        reason: str | None = "it is not a file"
        if stat.S_ISREG(path.lstat().st_mode):
            reason = _why_left_out(path, relative, include)
        if reason is None:
            content.files.append(relative)
        else:
            content.left_out[relative] = reason
    if leaving:
        raise UsageError(
            f"{counted(len(leaving), 'link')} in {root} lead out of it: {'; '.join(leaving)}",
            hint="put the files themselves there, or remove the links",
        )
    _drop_links_to_left_out(content)
    return content


def check_file(path: Path, include: Sequence[str] = ()) -> None:
    """Raise UsageError if a file given by name looks like a secret."""
    reason = _why_left_out(path, Path(path.name), include)
    if reason is not None:
        raise UsageError(
            f"{path} does not go into an image: {reason}",
            hint=f"if it is none: --include {path.name}",
        )


def check_requirements(path: Path) -> None:
    """Raise UsageError if a requirements file has a password in a URL: the image would keep it."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if any(not part.startswith("${") for part in url_parts(line)):
            hint = "name an index without one, or use a base image that has the library"
            raise UsageError(
                f"{path}:{number}: the URL holds a password, which the image would keep", hint=hint
            )
    check_file(path)


def _walk(content: ImageContent) -> Iterator[Path]:
    """Yield the files and links of a folder, recording the folders that are left out."""
    for folder, folder_names, file_names in os.walk(content.root):
        folder_path = Path(folder)
        entered_names: list[str] = []
        for name in sorted(folder_names):
            path = folder_path / name
            if path.is_symlink():
                yield path
            elif secret_folder(name):
                relative = path.relative_to(content.root)
                content.left_out[relative] = "tools keep keys or histories in such folders"
            elif name not in _IGNORED:
                entered_names.append(name)
        # os.walk enters the folders that are left in this list.
        folder_names[:] = entered_names
        for name in sorted(file_names):
            yield folder_path / name


def _why_left_out(path: Path, relative: Path, include: Sequence[str]) -> str | None:
    """Return why a file looks like a secret; None if it does not, or if a pattern includes it."""
    for pattern in include:
        if fnmatchcase(str(relative), pattern) or fnmatchcase(path.name, pattern):
            return None
    try:
        return why_secret_name(path.name) or why_secret_content(path)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="make it readable, or remove it"
        ) from error


def _add_link(content: ImageContent, relative: Path, leaving: list[str]) -> None:
    """Add a link to the content, or to ``leaving`` if it leads out of the folder."""
    path = content.root / relative
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        # The target does not exist, or the links form a loop.
        if _stays_inside(content.root, path):
            content.left_out[relative] = "it is a link to nothing"
        else:
            leaving.append(f"{relative} -> {path.readlink()}")
        return
    if target.is_relative_to(content.root):
        content.links[relative] = os.path.relpath(target, path.parent)
    else:
        leaving.append(f"{relative} -> {path.readlink()}")


def _stays_inside(root: Path, path: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return True


def _drop_links_to_left_out(content: ImageContent) -> None:
    """Leave out the links whose target is left out."""
    present = set(content.files)
    for path in content.files:
        present.update(path.parents)
    for path, leads_to in list(content.links.items()):
        target = Path(os.path.normpath(path.parent / leads_to))
        if target not in present:
            del content.links[path]
            content.left_out[path] = f"it leads to {target}, which stays out"
