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
    """The tasks: of a checkout or a file of rows, else of the archive, which a mirror may hold."""
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
    """The files that a task begins with, on this machine, and where each belongs in the workspace."""
    placed = {}
    for file in row.get("workspace_files") or ():
        name = str(file.get("dest") or file.get("path"))
        if "bytes_base64" in file:
            content = base64.b64decode(file["bytes_base64"])
        elif "content" in file:
            content = str(file["content"]).encode()
        elif beside is not None and (beside / "assets" / str(file["source"])).is_file():
            content = (beside / "assets" / str(file["source"])).read_bytes()
        else:
            raise SeedError(
                f"the tasks were copied without the file {file['source']!r}, which {row['id']} begins with"
            )
        kept = cache_dir() / "pinchbench" / digest_parts(content.hex()) / Path(name).name
        if not kept.is_file():
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(content)
        placed[str(kept)] = name
    return placed


def tasks_of(files: Mapping[str, bytes], source: str) -> Iterator[JsonDict]:
    """The tasks among the files of a checkout, in the order of its manifest."""
    names = sorted(name for name in files if re.fullmatch(r"tasks/task_[^/]*\.md", name))
    if not names:
        raise UsageError(
            f"{source} has no tasks/task_*.md", hint="name a checkout of PinchBench's repository"
        )
    listed = list(_words(load_yaml(files.get("tasks/manifest.yaml", b""))))
    order = {
        word.removesuffix(".md").rpartition("/")[2]: at
        for at, word in reversed(list(enumerate(listed)))
    }
    for name in sorted(names, key=lambda name: order.get(Path(name).stem, len(order))):
        yield _task(Path(name).name, files[name].decode(), files)


def _of_archive(url: str) -> Rows:
    """The archive that GitHub makes of a commit, as rows that need nothing else."""
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
    """One task file as a row: what its head says, its sections, and the files that it begins with."""
    _, head, body = text.split("---\n", 2)
    about: JsonDict = load_yaml(head)
    parts = _SECTION.split(body)
    sections = dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))
    code = _FENCE.search(sections.get("Automated Checks", ""))
    row: JsonDict = {
        "id": Path(name).stem,
        "category": "general",
        "grading_type": "automated",
        "timeout_seconds": 120,
    }
    row |= about | {"file": name, "grading_code": code[1] if code else None}
    held: list[tuple[Any, bytes | None]] = []
    for file in about.get("workspace_files") or ():
        held.append((file, files.get(f"assets/{file.get('source')}")))
    row["workspace_files"] = [
        file if content is None else file | {"bytes_base64": base64.b64encode(content).decode()}
        for file, content in held
    ]
    return row | {column: sections.get(title, "") for column, title in _SECTIONS.items()}


def _words(value: Any) -> Iterator[str]:
    """Every text in a manifest, whatever its form, in order."""
    if isinstance(value, str):
        yield value
    for item in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _words(item)
