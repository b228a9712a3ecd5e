"""The hub: nel fetches a split once, converts it to JSON lines in the cache folder, and reads it from there.

A second run therefore needs neither the network nor the ``datasets`` library, and `nel data mirror` copies a file.
"""

import base64
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import orjson

from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.files import replacing, safe_name
from nemo_evaluator.core.lazy import optional
from nemo_evaluator.core.secret_values import public_url
from nemo_evaluator.datasets.base import Rows
from nemo_evaluator.datasets.files import SUFFIXES, open_file
from nemo_evaluator.datasets.jsonl import JsonlRows
from nemo_evaluator.datasets.ref import DatasetRef
from nemo_evaluator.datasets.settings import cache_dir, is_offline

# The branch in which the hub stores parquet copies of datasets that are defined by a script.
_PARQUET_BRANCH = "refs/convert/parquet"


@dataclass(frozen=True, slots=True)
class _KnownError:
    """An error of the hub's libraries, and what we tell the user about it.

    Attributes:
        pattern: Found in the class name and the message, in lower case. The libraries change their error classes more
            often than the texts.
        message: The problem.
        fix: The fix.
    """

    pattern: str
    message: str
    fix: str


_NO_DATASET = "there is no dataset {repo!r} on the hub (or you may not see it)"
_CHECK_NAME = "check {page}; for a private dataset set HF_TOKEN; a local file needs its path"
# The first that fits counts. Status codes are whole numbers: hashes and request ids contain their digits, too.
_KNOWN = (
    # Its message mentions status 401 and gated datasets, whatever the reason.
    _KnownError("repositorynotfound", _NO_DATASET, _CHECK_NAME),
    _KnownError(
        r"gatedrepo|\bgated (repo|dataset)|\b40[13]\b",
        "{repo} is gated",
        "accept its terms at {page}, then set HF_TOKEN to a token that may read it",
    ),
    _KnownError(
        "builderconfig|config name is missing",
        "{repo} has no config {config!r}",
        "add ?config=...; it has: {listed}",
    ),
    _KnownError("unknown split|bad split", "{repo} has no split {split!r}", "it has: {listed}"),
    _KnownError(r"\b404\b|doesn't exist|notfound", _NO_DATASET, _CHECK_NAME),
)


def hub_library() -> Any:
    """Import the ``datasets`` library, which takes over a second."""
    return optional("datasets", extra="all", what="the datasets library")


def hub_client() -> Any:
    """Import the ``huggingface_hub`` library, which is installed with ``datasets``."""
    return optional("huggingface_hub", extra="all")


def fetch(ref: DatasetRef, revision: str | None) -> tuple[Rows, str | None]:
    """Return the rows of a hub split, and their revision.

    Args:
        ref: The split.
        revision: The revision; None for that of ``ref``, else the newest.

    Raises:
        UsageError: The split does not exist or cannot be fetched.
    """
    if revision is None or not cache_path(ref, revision).exists():
        _refuse_offline(ref.key)
        try:
            revision = revision or _current_revision(ref)
            cached_file = cache_path(ref, revision)
            if not cached_file.exists():
                _write(cached_file, _download(ref, revision))
        except NelError:
            raise
        except Exception as error:
            raise explain(ref, error) from error
    return JsonlRows(cache_path(ref, revision), ref.key), revision


def _current_revision(ref: DatasetRef) -> str:
    """Ask the hub for the commit that the revision of ``ref`` names now; by default the newest."""
    return str(hub_client().HfApi().dataset_info(ref.repo, revision=ref.revision).sha)


def _refuse_offline(what: str) -> None:
    """Raise UsageError if downloads are disabled."""
    if is_offline():
        hint = "run once with a network, or point NEL_DATA_MIRROR at a mirror that holds it"
        raise UsageError(
            f"{what} is not in the cache, and nothing may be fetched (offline)", hint=hint
        )


def cache_path(ref: DatasetRef, revision: str) -> Path:
    """Return the path of the cached JSON lines of a split."""
    folder = cache_dir() / "hub" / safe_name(ref.repo) / safe_name(ref.config or "default")
    return folder / f"{safe_name(ref.file or ref.split)}@{safe_name(revision)}.jsonl"


def fetch_url(url: str) -> Rows:
    """Download and open a file on the web."""
    return open_file(download(url), public_url(url))


def download(url: str) -> Path:
    """Download a file on the web, unless it is in the cache.

    Returns:
        The path of the cached file.

    Raises:
        UsageError: The file cannot be fetched.
    """
    # Without passwords and tokens, because the same file with another token is the same file.
    folder, _, file_name = public_url(url).rpartition("/")
    name = safe_name(file_name) or f"data{_suffix_of(url)}"
    cached_file = cache_dir() / "url" / safe_name(folder) / name
    if not cached_file.exists():
        _refuse_offline(url)
        try:
            with replacing(cached_file) as file, urlopen(url, timeout=60) as response:  # noqa: S310 - only http and https come here
                shutil.copyfileobj(response, file)
        except (URLError, OSError) as error:
            raise UsageError(
                f"cannot fetch {url}: {error}", hint="check the network, or use a mirror"
            ) from error
    return cached_file


def _suffix_of(url: str) -> str:
    """Return the known suffix that a URL ends in; ``.jsonl`` by default."""
    for suffix in SUFFIXES:
        if url.lower().endswith((suffix, f"{suffix}.gz")):
            return suffix
    return ".jsonl"


def _download(ref: DatasetRef, revision: str) -> Iterable[dict[str, Any]]:
    """Download a split from the hub, as a single data file or with the ``datasets`` library."""
    if ref.file:
        path = hub_client().hf_hub_download(
            ref.repo, ref.file, repo_type="dataset", revision=revision
        )
        return open_file(Path(path), ref.key)
    library = hub_library()
    try:
        dataset = library.load_dataset(ref.repo, ref.config, split=ref.split, revision=revision)
    except RuntimeError as error:
        if "script" not in str(error):
            raise
        dataset = library.load_dataset(
            ref.repo, ref.config, split=ref.split, revision=_PARQUET_BRANCH
        )
    for column, feature in dataset.features.items():
        # Keep images and sounds as bytes: decoding would need more libraries and lose the format.
        if isinstance(feature, (library.Image, library.Audio)):
            dataset = dataset.cast_column(column, type(feature)(decode=False))
    rows: Iterable[dict[str, Any]] = dataset
    return rows


def _write(target: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as JSON lines, with the bytes of images and sounds in Base64, as mirrors do."""
    with replacing(target) as file:
        for row in rows:
            for key, value in row.items():
                if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
                    content = base64.b64encode(value["bytes"]).decode()
                    row[key] = {"path": value.get("path"), "bytes_base64": content}
            file.write(orjson.dumps(row, default=str, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def explain(ref: DatasetRef, error: Exception) -> UsageError:
    """Convert an error of the hub to one for users, with the problem and its fix."""
    text = str(error)
    type_name = type(error).__name__
    available = ""
    choices = re.search(r"\[(['\"][^\]]+)\]", text)
    if choices:
        available = choices[1].replace("'", "").replace('"', "")
    values = {
        "repo": ref.repo,
        "config": ref.config,
        "split": ref.split,
        "listed": available,
        "page": f"https://huggingface.co/datasets/{ref.repo}",
    }
    searched_text = f"{type_name}: {text}".lower()
    for known in _KNOWN:
        if re.search(known.pattern, searched_text):
            return UsageError(known.message.format(**values), hint=known.fix.format(**values))
    first_line = text.partition("\n")[0]
    return UsageError(
        f"cannot fetch {ref.key}: {type_name}: {first_line}",
        hint="check the network, or point NEL_DATA_MIRROR at a mirror that holds it",
    )
