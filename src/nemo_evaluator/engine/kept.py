"""Views and a bundle that stand as they are: a resume that has nothing to do need not write them again."""

import hashlib

from nemo_evaluator._version import __version__
from nemo_evaluator.core.hashing import canonical
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.bundle import load_bundle
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.sums import untouched


def config_hash(config: JsonDict) -> str:
    """The digest of a config without what happened on the way: resumed, sharded or at one go, it is the same."""
    asked = {key: value for key, value in config.items() if key not in ("resumed", "n_shards")}
    return f"sha256:{hashlib.sha256(canonical(asked)).hexdigest()}"


def kept_bundle(task: TaskPaths, config: JsonDict) -> JsonDict | None:
    """The bundle in a folder when this version made it, of this config and of all that the journal holds."""
    bundles = task.bundles()
    files = (task.results, task.trajectories, task.runtime_stats, *bundles)
    if len(bundles) != 1 or not untouched(task.root).issuperset(files):
        return None
    if task.results.stat().st_mtime_ns < task.journal.stat().st_mtime_ns:
        return None
    document = load_bundle(bundles[0]).document
    made = document.get("sdk_version"), document.get("config_hash"), document.get("stopped")
    return document if made == (__version__, config_hash(config), None) else None
