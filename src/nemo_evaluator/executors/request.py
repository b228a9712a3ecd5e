"""What ``nel eval run`` was asked to do, the config that follows from it, and the file in which a run is told of it.
The file holds no secret: what is one travels to the worker in an environment variable."""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import urlsplit

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError

from nemo_evaluator.config import SNAPSHOT, LoadedConfig, load_config, load_mapping
from nemo_evaluator.config.quick import QuickEndpoint, find_provider, providers, quick_data
from nemo_evaluator.core.arguments import masked_arguments
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, write_atomic
from nemo_evaluator.core.secrets import MASK
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import asdict, dataclass, replace
from nemo_evaluator.engine.plan import Shard
from nemo_evaluator.store.lock import ensure_free
from nemo_evaluator.store.run_registry import RunMeta, registry_dir, run_in
from nemo_evaluator.store.sums import altered

# Where quick mode looks for a key.
_KEYS: Final = ("NEMO_API_KEY", "NVIDIA_API_KEY")
_JUDGE_KEY: Final = "NEMO_JUDGE_API_KEY"
_CARRIED: Final = "NEL_REQUEST_SECRETS"
# Fields that may hold a secret, besides overrides.
_URLS: Final = ("model_url", "judge_url")
_NAMED: Final = re.compile(r"\$\{(\w+)")
# Of nel itself, of hubs and trackers, and the ways to the network.
_USUAL: Final = re.compile(r"(NEL|NEMO|HF|MLFLOW|WANDB)_|((https?|all|no)_proxy|SSL_CERT_FILE)$", re.IGNORECASE)
_SHARD_VARIABLES: Final = {"NEL_SHARD_IDX": "NEL_TOTAL_SHARDS", "SLURM_ARRAY_TASK_ID": "SLURM_ARRAY_TASK_COUNT"}


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The flags of ``nel eval run``, and for a worker: where they were given, for which run, in which command."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    config_file: str | None = None
    # The variable that holds the key; null: a provider's own, or the first of the usual ones that is set.
    key_variable: str | None = None
    judge_url: str | None = None
    judge_id: str | None = None
    judge_key_variable: str | None = None
    env_file: str | None = None
    model: str | None = None
    bench: str | None = None
    model_url: str | None = None
    model_id: str | None = None
    repeats: int = 1
    max_problems: int | None = None
    only: tuple[str, ...] = ()
    concurrency: int | None = None
    system_prompt: str | None = None
    temperature: float = 0.0
    max_tokens: int | None = None
    output_dir: str | None = None
    override: tuple[str, ...] = ()
    resume: bool = False
    fresh: bool = False
    detach_batch: bool = False
    dry_run: bool = False
    background: bool = False
    submit: bool = False
    shard: str | None = None
    # Of a run whose executor splits it: the one shard that is resumed.
    only_shard: int | None = None
    strict_export: bool = False
    frozen: bool = False
    allow_fallback: bool = False
    as_json: bool = False
    no_progress: bool = False
    verbose: bool = False
    cwd: str | None = None
    run_id: str | None = None
    # As others may read it.
    command: tuple[str, ...] = ()


def resume_request(run: RunMeta, *, background: bool, as_json: bool, command: tuple[str, ...] = ()) -> RunRequest:
    """The request that continues a run: its own config again, in its own folder."""
    folder = Path(run.output_dir)
    ensure_free(folder)
    # Of a run elsewhere it is kept here.
    snapshot = (registry_dir() / run.run_id if run.remote else folder) / SNAPSHOT
    if not snapshot.is_file():
        raise UsageError(f"{snapshot} is gone", hint="run the original command with --resume instead")
    if altered(snapshot):
        hint = f"if the change was meant: nel eval run {snapshot} --resume"
        raise UsageError(f"{snapshot} is damaged, or was changed since the run", hint=hint)
    kept = run.run_id if run.remote else None
    return RunRequest(str(snapshot), resume=True, background=background, as_json=as_json, command=command, run_id=kept)


def write_request(request: RunRequest, run_id: str, folder: Path) -> Path:
    """Write a request where the worker of a run finds it; only its owner may read it."""
    path = _file(folder, run_id)
    write_atomic(path, dumps(asdict(_masked(request)) | {"run_id": run_id}, indent=True) + b"\n", mode=0o600)
    return path


def carried_secrets(request: RunRequest) -> dict[str, str]:
    """The variables that a worker needs besides the request file; empty when that says everything."""
    if _masked(request) == request:
        return {}
    return {_CARRIED: dumps({name: getattr(request, name) for name in ("override", *_URLS)}).decode()}


def needed_variables(loaded: LoadedConfig) -> dict[str, str]:
    """The variables of this environment that a run needs elsewhere: those its config names, and the usual ones."""
    named = set(_NAMED.findall(dumps(loaded.raw).decode()))
    return {name: value for name, value in os.environ.items() if name in named or _USUAL.match(name)}


def read_request(path: Path) -> RunRequest:
    """The request of a file, with its secrets, which are taken out of the environment."""
    try:
        request = TypeAdapter(RunRequest).validate_json(path.read_bytes())
        request = replace(request, **orjson.loads(os.environ.pop(_CARRIED, "{}")))
    except (OSError, ValidationError, orjson.JSONDecodeError, TypeError) as error:
        raise UsageError(f"{path} cannot be read as a request", hint="start the run again") from error
    if any(MASK in word for word in (*request.override, *(getattr(request, name) or "" for name in _URLS))):
        raise UsageError(f"{path} lacks its secrets", hint=f"they travel in the environment, as {_CARRIED}")
    return replace(request, override=tuple(request.override))


def remove_requests(folder: Path, *, but: Callable[[str], bool]) -> None:
    """Remove the request files in a folder but those of some runs, asked for by their ids."""
    for path in folder.glob(_file(folder, "*").name):
        if not but(path.stem.removeprefix("nel_request-")):
            path.unlink(missing_ok=True)


def worker_command(file: Path) -> list[str]:
    """The arguments of a Python interpreter that does what a request file says."""
    return ["-m", "nemo_evaluator.cli.main", "eval", "run", "--request", str(file)]


def _file(folder: Path, run_id: str) -> Path:
    return folder / f"nel_request-{run_id}.json"


def _masked(request: RunRequest) -> RunRequest:
    words = masked_arguments([word for override in request.override for word in ("-O", override)])
    urls: JsonDict = {name: masked_arguments([url])[0] for name in _URLS if (url := getattr(request, name))}
    return replace(request, override=tuple(words[1::2]), **urls)


def at_home(request: RunRequest) -> tuple[RunRequest, Path | None]:
    """A request for the snapshot of an earlier run, as it was meant then; and where that run's config was. Its relative
    paths mean what they meant in the run, and it runs in the folder in which it stands."""
    file = Path(request.config_file) if request.config_file is not None else None
    run = run_in(file.parent) if file is not None and file.name == SNAPSHOT else None
    if file is None or run is None:
        return request, file.parent if file is not None else None
    output_dir = str(Path(request.output_dir).resolve()) if request.output_dir else run.output_dir
    shard = request.shard or run.details.get("shard")
    request = replace(request, config_file=str(file.resolve()), output_dir=output_dir, shard=shard)
    if (home := run.place("cwd")) is not None:
        os.chdir(home)
    return request, run.place("config_dir")


def load_request(request: RunRequest, folder: Path | None = None) -> LoadedConfig:
    """The config of a request: the file's, or the one that quick mode stands for; ``folder`` is where it was."""
    only = [word for text in request.only for word in text.split(",") if word]
    whole = {"output.strict_export": request.strict_export or None, "datasets.frozen": request.frozen or None}
    each = {
        "max_problems": request.max_problems,
        "only": [int(word) if word.isdecimal() else word for word in only] if request.only else None,
        "max_concurrent": request.concurrency,
        "scoring.allow_fallback": request.allow_fallback or None,
    }
    overrides = [*request.override, *_settings(whole)]
    loaded = _load(request, overrides, folder)
    every = range(len(loaded.config.benchmarks))
    each_of = [f"benchmarks.{at}.{setting}" for at in every for setting in _settings(each)]
    return _load(request, [*overrides, *each_of], folder) if each_of else loaded


def _settings(flags: Mapping[str, object]) -> list[str]:
    """What flags set, as overrides; None: nothing."""
    return [f"{key}={json.dumps(value)}" for key, value in flags.items() if value is not None]


def _load(request: RunRequest, overrides: list[str], folder: Path | None) -> LoadedConfig:
    if request.config_file is not None:
        return load_config(request.config_file, overrides, output_dir=request.output_dir, folder=folder)
    return load_mapping(_quick(request), overrides, output_dir=request.output_dir)


def _quick(request: RunRequest) -> JsonDict:
    url, model, key = request.model_url, request.model_id, request.key_variable
    if request.model is not None:
        provider, model = find_provider(request.model)
        url, key = provider.url, key or provider.key
    elif key is None:
        key = next((name for name in _KEYS if os.environ.get(name)), None)
    if not url or not model:
        hint = (
            f"give --model PROVIDER/MODEL (providers: {', '.join(providers())}), or --model-url and --model-id, "
            "or set NEMO_MODEL_URL and NEMO_MODEL_ID"
        )
        raise UsageError("quick mode needs a model", hint=hint)
    return quick_data(
        request.bench or "",
        QuickEndpoint(url, model, _reference(key)),
        _quick_judge(request, url, key),
        repeats=request.repeats,
        system_prompt=request.system_prompt,
        temperature=request.temperature,
        max_tokens=request.max_tokens,
    )


def _quick_judge(request: RunRequest, model_url: str, model_key: str | None) -> QuickEndpoint | None:
    """The judge, if one is asked for. The model's key goes to it only where it is on the model's own server."""
    url, judge, key = request.judge_url, request.judge_id, request.judge_key_variable
    if not url and not judge and key is None:
        return None
    if not url or not judge:
        raise UsageError("a judge needs its URL and its model", hint="give --judge-url and --judge-id")
    if key is None:
        same = urlsplit(url)[:2] == urlsplit(model_url)[:2]
        key = _JUDGE_KEY if os.environ.get(_JUDGE_KEY) else model_key if same else None
    return QuickEndpoint(url, judge, _reference(key))


def _reference(variable: str | None) -> str | None:
    """A key by reference: the key itself must not reach the snapshot of the config."""
    return f"${{{variable}}}" if variable else None


def shard_of(request: RunRequest) -> Shard | None:
    """The shard to run: the flag's, or the environment's."""
    if request.shard is not None:
        index, _, total = request.shard.partition("/")
        return _shard(index, total, f"--shard {request.shard}")
    for index_name, total_name in _SHARD_VARIABLES.items():
        found, count = os.environ.get(index_name), os.environ.get(total_name)
        if found is not None and count is not None:
            return _shard(found, count, f"{index_name}={found}, {total_name}={count}")
    return None


def shard_dir(output_dir: Path, shard: Shard | None) -> Path:
    """Shards write side by side, so that `nel eval merge` finds them."""
    if shard is None or output_dir.name == f"shard_{shard.index}":
        return output_dir
    return output_dir / f"shard_{shard.index}"


def _shard(index: str, total: str, source: str) -> Shard:
    try:
        return Shard(int(index), int(total))
    except ValueError as error:
        raise UsageError(f"{source} is not a shard", hint="write it as I/N, counting from 0: --shard 0/4") from error
