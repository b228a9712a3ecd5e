"""From the name of a Harbor dataset to its task folders: the registry, git, and the lock.

Every task is pinned: its commit and the hash of its files are in the dataset lock, so another run gets the same tasks
or reports that they changed.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_json, safe_name
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets.lock import LockEntry, check, exclusive, one_write, read_lock
from nemo_evaluator.datasets.settings import cache_dir, is_offline
from nemo_evaluator.environments.schemes._harbor_task import INSTRUCTION, HarborTask

_REGISTRY: Final = "https://raw.githubusercontent.com/laude-institute/harbor/main/registry.json"
_log = logging.getLogger(__name__)
_GIT_SECONDS: Final = 1800.0
_URL: Final = re.compile(r"(?:https?|ssh|git|file)://|[\w.]+@[\w.-]+:|/")
_COMMIT: Final = re.compile(r"(?:\w[\w./-]*)?")


@dataclass(frozen=True, slots=True)
class TaskSource:
    """Where a registry says that a task lies."""

    name: str
    git_url: str
    path: str
    commit: str | None = None


def tasks_in(folder: Path) -> list[HarborTask]:
    """The task folders in a folder, by name; the folder itself when it is one."""
    if (folder / INSTRUCTION).is_file():
        return [HarborTask(folder)]
    return [HarborTask(path) for path in sorted(folder.iterdir()) if (path / INSTRUCTION).is_file()]


def fetch(name: str, version: str | None, wanted: Sequence[str] | None = None) -> list[HarborTask]:
    """The tasks of a registered dataset, downloaded once. Raises UsageError when there is no such dataset."""
    entry = _entry(name, version)
    sources = [_source(one) for one in entry["tasks"] if wanted is None or one["name"] in wanted]
    dataset = f"{name}@{entry['version']}"
    key = f"harbor://{dataset}"
    absent = sorted(set(wanted or ()) - {one.name for one in sources})
    if absent:
        _log.warning("%s has no task %s", dataset, ", ".join(absent))
    root = Path(os.environ.get("HARBOR_DATASETS_DIR") or cache_dir() / "harbor")
    folder = root / dataset.replace("/", "__")
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder), one_write():
        known = read_lock()
        for at, source in enumerate(sources):
            if (
                source.commit in (None, "HEAD")
                and (pinned := known.get(f"{key}#{source.name}")) is not None
            ):
                sources[at] = replace(source, commit=pinned.revision)
        commits = _download(
            [one for one in sources if not (folder / one.name / INSTRUCTION).is_file()], folder
        )
        tasks = [HarborTask(folder / one.name) for one in sources]
        for task, source in zip(tasks, sources, strict=True):
            commit = commits.get(source.name) or source.commit
            check(
                f"{key}#{source.name}",
                LockEntry(task.content_hash, 1, commit, origin=source.git_url),
            )
    return tasks


def _source(entry: JsonDict) -> TaskSource:
    """A task of the registry. Nothing that it names may lead out of our folder, or be taken for an option by git."""
    name, url, path, commit = (
        str(entry.get(key) or "") for key in ("name", "git_url", "path", "git_commit_id")
    )
    inside = not path.startswith("/") and ".." not in path.split("/")
    if (
        safe_name(name) != name
        or not inside
        or not _URL.match(url)
        or not _COMMIT.fullmatch(commit)
    ):
        raise UsageError(
            f"the Harbor registry has an unsafe task: {entry}",
            hint="check where the registry comes from",
        )
    return TaskSource(name, url, path, commit=commit or None)


def _entry(name: str, version: str | None) -> JsonDict:
    """The registry's entry of a dataset: the version that is asked for, else head, else the highest."""
    known = _registry()
    versions = {str(one.get("version")): one for one in known if one.get("name") == name}
    if not versions:
        names = sorted({str(one.get("name")) for one in known})
        hint = did_you_mean(
            name, names, "name a folder of tasks, or set HARBOR_REGISTRY", form="harbor://{}"
        )
        raise UsageError(f"the Harbor registry has no dataset {name!r}", hint=hint)
    if version is not None and version not in versions:
        raise UsageError(
            f"harbor://{name} has no version {version!r}", hint=f"it has: {', '.join(versions)}"
        )
    chosen = version or ("head" if "head" in versions else max(versions, key=_order))
    return versions[chosen]


def _order(version: str) -> Version:
    try:
        return Version(version)
    except InvalidVersion:
        return Version("0")


def _registry() -> list[JsonDict]:
    """The registry file (``HARBOR_REGISTRY``, a path or URL; else Harbor's own), with local additions on top of it."""
    place = os.environ.get("HARBOR_REGISTRY") or _REGISTRY
    try:
        if "://" in place and not place.startswith("file://"):
            if is_offline():
                raise UsageError(
                    "the Harbor registry is not reached offline",
                    hint="set HARBOR_REGISTRY to a file",
                )
            with urllib.request.urlopen(place, timeout=60) as reply:  # noqa: S310 - http or https, or the user's own
                entries: Any = json.load(reply)
        else:
            entries = read_json(Path(place.removeprefix("file://")))
    except (OSError, ValueError) as error:
        hint = "set HARBOR_REGISTRY to a registry file, or name a folder of tasks: harbor://./tasks"
        raise UsageError(f"cannot read the Harbor registry {place}: {error}", hint=hint) from error
    own = os.environ.get("HARBOR_REGISTRY_OVERRIDE_DIR")
    if own:
        additions: list[Any] = []
        for file in sorted(Path(own).glob("*.json")):
            for one in read_json(file):
                additions.append(one)
    else:
        additions = []
    replaced = {(one.get("name"), str(one.get("version"))) for one in additions}
    return [
        one for one in entries if (one.get("name"), str(one.get("version"))) not in replaced
    ] + additions


def _download(sources: Sequence[TaskSource], target: Path) -> dict[str, str]:
    """Fetch task folders, one sparse clone for each repository and commit; returns the commit of each."""
    if sources and is_offline():
        raise UsageError(
            f"{len(sources)} tasks are not downloaded, and this run is offline",
            hint="run once online",
        )
    commits: dict[str, str] = {}
    for url, commit in dict.fromkeys((one.git_url, one.commit) for one in sources):
        here = [one for one in sources if (one.git_url, one.commit) == (url, commit)]
        with tempfile.TemporaryDirectory(prefix=".clone-", dir=target) as clone:
            _git(clone, "init", "-q")
            _git(clone, "remote", "add", "origin", url)
            _git(clone, "sparse-checkout", "set", "--no-cone", *(f"/{one.path}/" for one in here))
            _git(
                clone, "fetch", "-q", "--depth=1", "--filter=blob:none", "origin", commit or "HEAD"
            )
            _git(clone, "checkout", "-q", "FETCH_HEAD")
            found = _git(clone, "rev-parse", "HEAD").strip()
            for one in here:
                folder = Path(clone) / one.path
                if not (folder / INSTRUCTION).is_file():
                    raise UsageError(
                        f"{url} at {found[:12]} has no task {one.path}",
                        hint="check the registry's entry",
                    )
                shutil.rmtree(target / one.name, ignore_errors=True)
                folder.rename(target / one.name)
                commits[one.name] = found
    return commits


def _git(folder: str, *words: str) -> str:
    command = ["git", "-C", folder, "-c", "advice.detachedHead=false", *words]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=_GIT_SECONDS, env=environment
        )
    except FileNotFoundError as error:
        said = "Harbor datasets are downloaded with git, which is not installed"
        raise UsageError(said, hint="install git") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"git {words[0]} took more than {_GIT_SECONDS:g} s", hint="try again"
        ) from error
    if ran.returncode:
        raise UsageError(
            f"git {words[0]} failed: {ran.stderr.strip()[-500:]}",
            hint="check the URL and the network",
        )
    return ran.stdout
