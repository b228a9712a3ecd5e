"""What of a benchmark's folder goes into an image: its files, without secrets, without links that leave it."""

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
    """The files and links of a folder (paths relative to it), and what stays out, with the reason."""

    root: Path
    files: list[Path] = field(default_factory=list)
    links: dict[Path, str] = field(default_factory=dict)
    left_out: dict[Path, str] = field(default_factory=dict)

    def copy_to(self, target: Path) -> None:
        """Copy what goes in. Modes stay as they are; links are written relative, so that they lead to the copy."""
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
        """What goes in and what does not, a line each."""
        going = sorted(
            [*map(str, self.files), *(f"{path} -> {to}" for path, to in self.links.items())]
        )
        lines = [f"goes into the image: {counted(len(going), 'file')} of {self.root}"]
        lines += [f"  {name}" for name in going[:_MOST_LISTED]]
        if len(going) > _MOST_LISTED:
            lines.append(f"  and {len(going) - _MOST_LISTED} more")
        if self.left_out:
            lines.append("left out:")
            lines += [f"  {path}: {why}" for path, why in sorted(self.left_out.items())]
        return "\n".join(lines)


def folder_content(root: Path, include: Sequence[str] = ()) -> ImageContent:
    """What of a folder goes into an image.

    Args:
        root: The folder.
        include: Patterns of files that go in although they look like secrets.

    Raises:
        UsageError: Links lead out of the folder; all of them are named.
    """
    content = ImageContent(root.resolve())
    leaving: list[str] = []
    for path in _walk(content):
        relative = path.relative_to(content.root)
        if path.is_symlink():
            _add_link(content, relative, leaving)
        elif not stat.S_ISREG(path.lstat().st_mode):
            content.left_out[relative] = "it is not a file"
        elif (why := _why_left_out(path, relative, include)) is not None:
            content.left_out[relative] = why
        else:
            content.files.append(relative)
    if leaving:
        raise UsageError(
            f"{counted(len(leaving), 'link')} in {root} lead out of it: {'; '.join(leaving)}",
            hint="put the files themselves there, or remove the links",
        )
    _drop_links_to_left_out(content)
    return content


def check_file(path: Path, include: Sequence[str] = ()) -> None:
    """Refuse a file that was asked for by name and that looks like a secret."""
    why = _why_left_out(path, Path(path.name), include)
    if why is not None:
        raise UsageError(
            f"{path} does not go into an image: {why}", hint=f"if it is none: --include {path.name}"
        )


def check_requirements(path: Path) -> None:
    """Refuse a list of libraries with a password in a URL: the image would keep it."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if any(not part.startswith("${") for part in url_parts(line)):
            hint = "name an index without one, or use a base image that has the library"
            raise UsageError(
                f"{path}:{number}: the URL holds a password, which the image would keep", hint=hint
            )
    check_file(path)


def _walk(content: ImageContent) -> Iterator[Path]:
    """The files and links of a folder; folders that stay out are noted."""
    for folder, names, files in os.walk(content.root):
        here = Path(folder)
        kept_names: list[str] = []
        for name in sorted(names):
            path = here / name
            if path.is_symlink():
                yield path
            elif secret_folder(name):
                content.left_out[path.relative_to(content.root)] = (
                    "tools keep keys or histories in such folders"
                )
            elif name not in _IGNORED:
                kept_names.append(name)
        names[:] = kept_names
        for name in sorted(files):
            yield here / name


def _why_left_out(path: Path, relative: Path, include: Sequence[str]) -> str | None:
    if any(
        fnmatchcase(str(relative), pattern) or fnmatchcase(path.name, pattern)
        for pattern in include
    ):
        return None
    try:
        return why_secret_name(path.name) or why_secret_content(path)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="make it readable, or remove it"
        ) from error


def _add_link(content: ImageContent, relative: Path, leaving: list[str]) -> None:
    path = content.root / relative
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        # It leads nowhere, or in a circle.
        if not _stays_inside(content.root, path):
            leaving.append(f"{relative} -> {path.readlink()}")
        else:
            content.left_out[relative] = "it is a link to nothing"
        return
    if not target.is_relative_to(content.root):
        leaving.append(f"{relative} -> {path.readlink()}")
        return
    content.links[relative] = os.path.relpath(target, path.parent)


def _stays_inside(root: Path, path: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return True


def _drop_links_to_left_out(content: ImageContent) -> None:
    """A link is as good as what it leads to: to a file that stays out, or a folder of such, it stays out as well."""
    present = {*content.files, *(parent for path in content.files for parent in path.parents)}
    for path, leads_to in list(content.links.items()):
        target = Path(os.path.normpath(path.parent / leads_to))
        if target not in present:
            del content.links[path]
            content.left_out[path] = f"it leads to {target}, which stays out"
