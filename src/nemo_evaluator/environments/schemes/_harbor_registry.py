"""Resolve the name of a Harbor dataset to task folders, with the registry, git and the dataset lock.

nel pins every task: the dataset lock holds its commit and the hash of its files, so another run gets the same tasks or
reports that they changed.
"""

import json
import logging
import os
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_json, safe_name, write_json
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets.lock import LockEntry, check, exclusive, one_write, read_lock
from nemo_evaluator.datasets.settings import cache_dir, is_offline
from nemo_evaluator.environments.schemes._harbor_task import INSTRUCTION, HarborTask

_REGISTRY: Final = "https://raw.githubusercontent.com/laude-institute/harbor/main/registry.json"
_log = logging.getLogger(__name__)
_GIT_SECONDS: Final = 1800.0
# The file beside the tasks of a dataset that holds their commits.
_DOWNLOADS: Final = ".downloads.json"
_URL: Final = re.compile(r"(?:https?|ssh|git|file)://|[\w.]+@[\w.-]+:|/")
_COMMIT: Final = re.compile(r"(?:\w[\w./-]*)?")


@dataclass(frozen=True, slots=True)
class TaskSource:
    """The repository, path and commit of a task, according to the registry."""

    name: str
    git_url: str
    path: str
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class _Download:
    """A downloaded task: the commit or branch that the registry named, and its commit."""

    requested: str | None
    commit: str


def tasks_in(folder: Path) -> list[HarborTask]:
    """Return the tasks in a folder, sorted by name; if the folder is itself a task, only that one."""
    if (folder / INSTRUCTION).is_file():
        return [HarborTask(folder)]
    return [HarborTask(path) for path in sorted(folder.iterdir()) if (path / INSTRUCTION).is_file()]


def fetch(name: str, version: str | None, wanted: Sequence[str] | None = None) -> list[HarborTask]:
    """Return the tasks of a registered dataset; download those that are missing or have another commit now.

    Args:
        name: The dataset's name in the registry.
        version: The version; None for ``head``, else the highest.
        wanted: The names of the tasks to return; None for all.

    Raises:
        UsageError: The registry has no such dataset or version, or the download failed.
    """
    entry = _entry(name, version)
    dataset = f"{name}@{entry['version']}"
    registered_sources = _sources(entry, dataset, wanted)
    root = Path(os.environ.get("HARBOR_DATASETS_DIR") or cache_dir() / "harbor")
    folder = root / dataset.replace("/", "__")
    folder.mkdir(parents=True, exist_ok=True)
    tasks: list[HarborTask] = []
    with exclusive(folder), one_write():
        lock_entries = read_lock()
        sources = [
            _pinned(source, lock_entries.get(_lock_key(dataset, source)))
            for source in registered_sources
        ]
        commits = _update(sources, folder)
        for source in sources:
            task = HarborTask(folder / source.name)
            commit = commits.get(source.name) or source.commit
            lock_entry = LockEntry(task.content_hash, 1, commit, origin=source.git_url)
            check(_lock_key(dataset, source), lock_entry)
            tasks.append(task)
    return tasks


def _lock_key(dataset: str, source: TaskSource) -> str:
    """Return the key of a task in the dataset lock."""
    return f"harbor://{dataset}#{source.name}"


def _pinned(source: TaskSource, locked: LockEntry | None) -> TaskSource:
    """Return the source at its locked commit, if the registry leaves the commit open."""
    if locked is None or source.commit not in (None, "HEAD"):
        return source
    return replace(source, commit=locked.revision)


def _update(sources: Sequence[TaskSource], folder: Path) -> dict[str, str]:
    """Download the tasks that are missing or of another commit.

    Returns:
        The commit of each downloaded task, by task name.
    """
    downloads = _read_downloads(folder)
    missing = [source for source in sources if _is_missing(source, folder, downloads)]
    commits = _download(missing, folder)
    for source in missing:
        downloads[source.name] = _Download(source.commit, commits[source.name])
    if missing:
        _write_downloads(folder, downloads)
    return commits


def _sources(entry: JsonDict, dataset: str, wanted: Sequence[str] | None) -> list[TaskSource]:
    """Return the sources of the wanted tasks; warn about wanted tasks that the dataset lacks."""
    sources: list[TaskSource] = []
    for task_entry in entry["tasks"]:
        if wanted is None or task_entry["name"] in wanted:
            sources.append(_source(task_entry))
    absent_names = sorted(set(wanted or ()) - {source.name for source in sources})
    if absent_names:
        _log.warning("%s has no task %s", dataset, ", ".join(absent_names))
    return sources


def _is_missing(source: TaskSource, folder: Path, downloads: dict[str, _Download]) -> bool:
    """Whether a task must be downloaded: its folder does not exist, or is of another commit."""
    if not (folder / source.name / INSTRUCTION).is_file():
        return True
    download = downloads.get(source.name)
    if download is None or source.commit is None:
        # A folder that nel did not download is used as it is.
        return False
    return source.commit not in (download.requested, download.commit)


def _read_downloads(folder: Path) -> dict[str, _Download]:
    """Return what nel downloaded into a folder, by task name."""
    file = folder / _DOWNLOADS
    if not file.is_file():
        return {}
    return {name: _Download(**entry) for name, entry in read_json(file).items()}


def _write_downloads(folder: Path, downloads: dict[str, _Download]) -> None:
    write_json(folder / _DOWNLOADS, {name: asdict(entry) for name, entry in downloads.items()})


def _source(entry: JsonDict) -> TaskSource:
    """Validate a registry entry: its path must stay inside our folder, and git must not read a value as an option.

    Raises:
        UsageError: The entry is unsafe.
    """
    name = str(entry.get("name") or "")
    url = str(entry.get("git_url") or "")
    path = str(entry.get("path") or "")
    commit = str(entry.get("git_commit_id") or "")
    stays_inside = not path.startswith("/") and ".." not in path.split("/")
    if (
        safe_name(name) != name
        or not stays_inside
        or not _URL.match(url)
        or not _COMMIT.fullmatch(commit)
    ):
        raise UsageError(
            f"the Harbor registry has an unsafe task: {entry}",
            hint="check where the registry comes from",
        )
    return TaskSource(name, url, path, commit=commit or None)


def _entry(name: str, version: str | None) -> JsonDict:
    """Return the registry's entry of a dataset: the requested version, else ``head``, else the highest."""
    registry_entries = _registry()
    versions = {
        str(entry.get("version")): entry for entry in registry_entries if entry.get("name") == name
    }
    if not versions:
        names = sorted({str(entry.get("name")) for entry in registry_entries})
        hint = did_you_mean(
            name, names, "name a folder of tasks, or set HARBOR_REGISTRY", form="harbor://{}"
        )
        raise UsageError(f"the Harbor registry has no dataset {name!r}", hint=hint)
    if version is not None and version not in versions:
        raise UsageError(
            f"harbor://{name} has no version {version!r}", hint=f"it has: {', '.join(versions)}"
        )
    chosen_version = version or ("head" if "head" in versions else max(versions, key=_order))
    return versions[chosen_version]


def _order(version: str) -> Version:
    """Return a sort key for a version; invalid versions sort as 0."""
    try:
        return Version(version)
    except InvalidVersion:
        return Version("0")


def _registry() -> list[JsonDict]:
    """Return the entries of the registry.

    They come from ``HARBOR_REGISTRY`` (a path or URL), else from Harbor's own registry. Files in
    ``HARBOR_REGISTRY_OVERRIDE_DIR`` add entries and replace those with the same name and version.
    """
    location = os.environ.get("HARBOR_REGISTRY") or _REGISTRY
    try:
        if "://" in location and not location.startswith("file://"):
            if is_offline():
                raise UsageError(
                    "the Harbor registry is not reached offline",
                    hint="set HARBOR_REGISTRY to a file",
                )
            with urllib.request.urlopen(location, timeout=60) as response:  # noqa: S310 - http or https, or the user's own
                entries: Any = json.load(response)
        else:
            entries = read_json(Path(location.removeprefix("file://")))
    except (OSError, ValueError) as error:
        hint = "set HARBOR_REGISTRY to a registry file, or name a folder of tasks: harbor://./tasks"
        raise UsageError(
            f"cannot read the Harbor registry {location}: {error}", hint=hint
        ) from error
    additions: list[Any] = []
    override_folder = os.environ.get("HARBOR_REGISTRY_OVERRIDE_DIR")
    if override_folder:
        for file in sorted(Path(override_folder).glob("*.json")):
            additions += read_json(file)
    replaced_keys = {_entry_key(entry) for entry in additions}
    return [entry for entry in entries if _entry_key(entry) not in replaced_keys] + additions


def _entry_key(entry: JsonDict) -> tuple[Any, str]:
    """Return the name and the version of an entry."""
    return entry.get("name"), str(entry.get("version"))


def _download(sources: Sequence[TaskSource], target: Path) -> dict[str, str]:
    """Download task folders with one sparse clone per repository and commit.

    Returns:
        The commit of each task, by task name.
    """
    if sources and is_offline():
        raise UsageError(
            f"{len(sources)} tasks are not downloaded, and this run is offline",
            hint="run once online",
        )
    groups: dict[tuple[str, str | None], list[TaskSource]] = {}
    for source in sources:
        groups.setdefault((source.git_url, source.commit), []).append(source)
    commits: dict[str, str] = {}
    for (url, commit), commit_sources in groups.items():
        with tempfile.TemporaryDirectory(prefix=".clone-", dir=target) as clone:
            resolved_commit = _clone(clone, url, commit or "HEAD", commit_sources)
            for source in commit_sources:
                folder = Path(clone) / source.path
                if not (folder / INSTRUCTION).is_file():
                    raise UsageError(
                        f"{url} at {resolved_commit[:12]} has no task {source.path}",
                        hint="check the registry's entry",
                    )
                shutil.rmtree(target / source.name, ignore_errors=True)
                folder.rename(target / source.name)
                commits[source.name] = resolved_commit
    return commits


def _clone(clone: str, url: str, commit: str, sources: Sequence[TaskSource]) -> str:
    """Clone the folders of some tasks, and return the commit."""
    task_folders = [f"/{source.path}/" for source in sources]
    _git(clone, "init", "-q")
    _git(clone, "remote", "add", "origin", url)
    _git(clone, "sparse-checkout", "set", "--no-cone", *task_folders)
    _git(clone, "fetch", "-q", "--depth=1", "--filter=blob:none", "origin", commit)
    _git(clone, "checkout", "-q", "FETCH_HEAD")
    return _git(clone, "rev-parse", "HEAD").strip()


def _git(folder: str, *words: str) -> str:
    """Run git in a folder and return its output; raise UsageError if it fails."""
    command = ["git", "-C", folder, "-c", "advice.detachedHead=false", *words]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        completed = subprocess.run(
            command, capture_output=True, text=True, timeout=_GIT_SECONDS, env=environment
        )
    except FileNotFoundError as error:
        message = "Harbor datasets are downloaded with git, which is not installed"
        raise UsageError(message, hint="install git") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"git {words[0]} took more than {_GIT_SECONDS:g} s", hint="try again"
        ) from error
    if completed.returncode:
        raise UsageError(
            f"git {words[0]} failed: {completed.stderr.strip()[-500:]}",
            hint="check the URL and the network",
        )
    return completed.stdout
