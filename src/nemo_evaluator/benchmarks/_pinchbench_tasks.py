"""PinchBench's tasks: from the archive of its repository, a checkout, or rows that were made of either."""

import base64
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from nemo_evaluator.core.bounded_yaml import load_yaml
from nemo_evaluator.core.errors import SeedError, UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.hashing import digest_parts
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import ListRows, Rows, open_rows
from nemo_evaluator.datasets.files import cached
from nemo_evaluator.datasets.hub import download
from nemo_evaluator.datasets.jsonl import JsonlRows
from nemo_evaluator.datasets.open import open_url
from nemo_evaluator.datasets.settings import cache_dir

SOURCE: Final = "https://github.com/pinchbench/skill"
REF: Final = "47efe9bf"
_FENCE: Final = re.compile(r"```python\n(.*?)```", re.DOTALL)
_SECTION: Final = re.compile(r"^## +(.+?)\s*$", re.MULTILINE)
_SECTIONS: Final = {
    "prompt": "Prompt",
    "expected_behavior": "Expected Behavior",
    "grading_criteria": "Grading Criteria",
    "llm_judge_rubric": "LLM Judge Rubric",
}


def load(dataset: str | None = None, source_url: str = SOURCE, source_ref: str = REF) -> Rows:
    """Load the tasks from a checkout, a file of rows or, by default, the repository's archive.

    Args:
        dataset: A checkout of the repository or a file of its tasks as rows; None downloads the archive.
        source_url: The repository, or a mirror of it.
        source_ref: The commit, tag or branch.
    """
    if dataset is None:
        return open_url(f"{source_url}/archive/{source_ref}.zip", _of_archive)
    folder = Path(dataset).expanduser()
    if not folder.is_dir():
        return open_rows(dataset)
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.glob("*/*")
        if path.is_file()
    }
    return ListRows(list(tasks_of(files, dataset)), dataset)


def files_of(row: Mapping[str, Any], beside: Path | None) -> dict[str, str]:
    """Store the files that a task starts with in the cache.

    Args:
        row: The task.
        beside: The folder of the dataset file; its ``assets`` may hold files that the row does not contain.

    Returns:
        The path of each file on this machine, with its name in the workspace.

    Raises:
        SeedError: A file is neither in the row nor in ``assets``.
    """
    workspace_names: dict[str, str] = {}
    for file in row.get("workspace_files") or ():
        name = str(file.get("dest") or file.get("path"))
        content = _content_of(file, beside)
        if content is None:
            raise SeedError(
                f"the tasks were copied without the file {file['source']!r}, which {row['id']} begins with"
            )
        # Files of equal content and base name, such as two __init__.py, differ in their workspace names.
        content_folder = cache_dir() / "pinchbench" / digest_parts(name, content.hex())
        cached_file = content_folder / Path(name).name
        if not cached_file.is_file():
            cached_file.parent.mkdir(parents=True, exist_ok=True)
            cached_file.write_bytes(content)
        workspace_names[str(cached_file)] = name
    return workspace_names


def _content_of(file: Mapping[str, Any], beside: Path | None) -> bytes | None:
    """Return the content of a workspace file: from the row, else from ``assets``; None if neither has it."""
    if "bytes_base64" in file:
        return base64.b64decode(file["bytes_base64"])
    if "content" in file:
        return str(file["content"]).encode()
    if beside is None:
        return None
    asset = beside / "assets" / str(file["source"])
    return asset.read_bytes() if asset.is_file() else None


def tasks_of(files: Mapping[str, bytes], source: str) -> Iterator[JsonDict]:
    """Parse the task files of a checkout, in the order of its manifest.

    Tasks that the manifest does not list come last, by name.

    Args:
        files: The content of the files in the checkout, by path.
        source: The name of the checkout for error messages.

    Raises:
        UsageError: There are no task files.
    """
    task_files = sorted(name for name in files if re.fullmatch(r"tasks/task_[^/]*\.md", name))
    if not task_files:
        raise UsageError(
            f"{source} has no tasks/task_*.md", hint="name a checkout of PinchBench's repository"
        )
    manifest_order: dict[str, int] = {}
    manifest = load_yaml(files.get("tasks/manifest.yaml", b""))
    for position, manifest_text in enumerate(_words(manifest)):
        task_name = manifest_text.removesuffix(".md").rpartition("/")[2]
        # A task that is listed twice has its first position.
        manifest_order.setdefault(task_name, position)
    after_all = max(manifest_order.values(), default=0) + 1

    def position_of(name: str) -> int:
        return manifest_order.get(Path(name).stem, after_all)

    for name in sorted(task_files, key=position_of):
        yield _task(Path(name).name, files[name].decode(), files)


def _of_archive(url: str) -> Rows:
    """Download the archive of a commit and convert its tasks to rows that contain all their files."""
    path = download(url)

    def write(target: IO[bytes]) -> None:
        with zipfile.ZipFile(path) as archive:
            files: dict[str, bytes] = {}
            for name in archive.namelist():
                if name[-1] != "/":
                    files[name.partition("/")[2]] = archive.read(name)
        target.writelines(dumps(row) + b"\n" for row in tasks_of(files, url))

    try:
        return JsonlRows(cached(path, "tasks.jsonl", write), url)
    except zipfile.BadZipFile as error:
        path.unlink()
        raise UsageError(
            f"{url} is not an archive: {error}", hint="check source_url and source_ref"
        ) from error


def _task(name: str, text: str, files: Mapping[str, bytes]) -> JsonDict:
    """Convert a task file to a row: its front matter, its sections and the content of its workspace files."""
    _, front_matter_text, body_text = text.split("---\n", 2)
    front_matter: JsonDict = load_yaml(front_matter_text)
    # The text before the first title, then titles and texts in turn.
    titles_and_texts = _SECTION.split(body_text)
    sections: dict[str, str] = {}
    for title, section_text in zip(titles_and_texts[1::2], titles_and_texts[2::2], strict=True):
        sections[title] = section_text.strip()
    grading_code: str | None = None
    code_block = _FENCE.search(sections.get("Automated Checks", ""))
    if code_block:
        grading_code = code_block[1]
    row: JsonDict = {
        "id": Path(name).stem,
        "category": "general",
        "grading_type": "automated",
        "timeout_seconds": 120,
    }
    row |= front_matter
    row["file"] = name
    row["grading_code"] = grading_code
    workspace_files: list[JsonDict] = []
    for file in front_matter.get("workspace_files") or ():
        content = files.get(f"assets/{file.get('source')}")
        if content is not None:
            encoded_content = base64.b64encode(content).decode()
            workspace_files.append(file | {"bytes_base64": encoded_content})
        else:
            workspace_files.append(file)
    row["workspace_files"] = workspace_files
    for column, title in _SECTIONS.items():
        row[column] = sections.get(title, "")
    return row


def _words(value: Any) -> Iterator[str]:
    """Yield every string in a manifest in order, however it is nested."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _words(item)
    elif isinstance(value, list):
        for item in value:
            yield from _words(item)
