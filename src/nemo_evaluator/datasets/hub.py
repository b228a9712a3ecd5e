"""The hub: a split is fetched once, turned into JSON lines in the cache folder, and read from there ever after.

So a second run needs neither the network nor the ``datasets`` library, and `nel data mirror` copies a file.
"""

import base64
import re
import shutil
from collections.abc import Iterable
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

# The branch where the hub keeps parquet copies of datasets that are defined by a script.
_PARQUET_BRANCH = "refs/convert/parquet"
# What the libraries say, in small letters (their classes change, their words are steadier), and what that means.
_KNOWN = {
    "gated|401|403": (
        "{repo} is gated",
        "accept its terms at {page}, then set HF_TOKEN to a token that may read it",
    ),
    "builderconfig|config name is missing": (
        "{repo} has no config {config!r}",
        "add ?config=...; it has: {listed}",
    ),
    "unknown split|bad split": ("{repo} has no split {split!r}", "it has: {listed}"),
    "404|doesn't exist|notfound": (
        "there is no dataset {repo!r} on the hub (or you may not see it)",
        "check {page}; for a private dataset set HF_TOKEN; a local file needs its path",
    ),
}


def hub_library() -> Any:
    """The ``datasets`` library, which takes over a second to import."""
    return optional("datasets", extra="all", what="the datasets library")


def hub_client() -> Any:
    """The ``huggingface_hub`` library, which comes with it."""
    return optional("huggingface_hub", extra="all")


def fetch(ref: DatasetRef, revision: str | None) -> tuple[Rows, str | None]:
    """The rows of a hub split at ``revision`` (the newest when None), and the revision they are from."""
    if revision is None or not cache_path(ref, revision).exists():
        _refuse_offline(ref.key)
        try:
            revision = revision or str(
                hub_client().HfApi().dataset_info(ref.repo, revision=ref.revision).sha
            )
            kept = cache_path(ref, revision)
            if not kept.exists():
                _write(kept, _download(ref, revision))
        except NelError:
            raise
        except Exception as error:
            raise explain(ref, error) from error
    return JsonlRows(cache_path(ref, revision), ref.key), revision


def _refuse_offline(what: str) -> None:
    if is_offline():
        hint = "run once with a network, or point NEL_DATA_MIRROR at a mirror that holds it"
        raise UsageError(
            f"{what} is not in the cache, and nothing may be fetched (offline)", hint=hint
        )


def cache_path(ref: DatasetRef, revision: str) -> Path:
    """Where a split is kept."""
    folder = cache_dir() / "hub" / safe_name(ref.repo) / safe_name(ref.config or "default")
    return folder / f"{safe_name(ref.file or ref.split)}@{safe_name(revision)}.jsonl"


def fetch_url(url: str) -> Rows:
    """The rows of a file on the web."""
    return open_file(download(url), public_url(url))


def download(url: str) -> Path:
    """A file on the web, fetched once."""
    suffix = next((s for s in SUFFIXES if url.lower().endswith((s, f"{s}.gz"))), ".jsonl")
    # Without passwords and tokens: the same file under another token is the same file.
    folder, _, file_name = public_url(url).rpartition("/")
    name = safe_name(file_name) or f"data{suffix}"
    kept = cache_dir() / "url" / safe_name(folder) / name
    if not kept.exists():
        _refuse_offline(url)
        try:
            with replacing(kept) as file, urlopen(url, timeout=60) as answer:  # noqa: S310 - only http and https come here
                shutil.copyfileobj(answer, file)
        except (URLError, OSError) as error:
            raise UsageError(
                f"cannot fetch {url}: {error}", hint="check the network, or use a mirror"
            ) from error
    return kept


def _download(ref: DatasetRef, revision: str) -> Iterable[dict[str, Any]]:
    if ref.file:
        path = hub_client().hf_hub_download(
            ref.repo, ref.file, repo_type="dataset", revision=revision
        )
        return open_file(Path(path), ref.key)
    library = hub_library()
    try:
        data = library.load_dataset(ref.repo, ref.config, split=ref.split, revision=revision)
    except RuntimeError as error:
        if "script" not in str(error):
            raise
        data = library.load_dataset(ref.repo, ref.config, split=ref.split, revision=_PARQUET_BRANCH)
    for column, feature in data.features.items():
        # Pictures and sounds stay the bytes they are: decoding would need further libraries and lose the format.
        if isinstance(feature, (library.Image, library.Audio)):
            data = data.cast_column(column, type(feature)(decode=False))
    rows: Iterable[dict[str, Any]] = data
    return rows


def _write(target: Path, rows: Iterable[dict[str, Any]]) -> None:
    with replacing(target) as file:
        for row in rows:
            for key, value in row.items():
                # Media cells in the form that mirrors use: base64 text.
                if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
                    row[key] = {
                        "path": value.get("path"),
                        "bytes_base64": base64.b64encode(value["bytes"]).decode(),
                    }
            file.write(orjson.dumps(row, default=str, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def explain(ref: DatasetRef, error: Exception) -> UsageError:
    """The error for users behind an error of the hub: what went wrong, and how to fix it."""
    text = str(error)
    kind = type(error).__name__
    choices = re.search(r"\[(['\"][^\]]+)\]", text)
    if choices:
        listed = choices[1].replace("'", "").replace('"', "")
    else:
        listed = ""
    page = f"https://huggingface.co/datasets/{ref.repo}"
    told = {
        "repo": ref.repo,
        "config": ref.config,
        "split": ref.split,
        "listed": listed,
        "page": page,
    }
    for words, (what, fix) in _KNOWN.items():
        if re.search(words, f"{text} {kind}".lower()):
            return UsageError(what.format(**told), hint=fix.format(**told))
    hint = "check the network, or point NEL_DATA_MIRROR at a mirror that holds it"
    return UsageError(f"cannot fetch {ref.key}: {kind}: {text.partition(chr(10))[0]}", hint=hint)
