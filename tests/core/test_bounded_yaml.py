"""YAML of strangers: bombs are refused with a reason, in bounded time and memory, by whoever reads them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from nemo_evaluator.cli.export import read_settings
from nemo_evaluator.core.bounded_yaml import load_yaml
from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.environments.schemes._container_results import read_results
from nemo_evaluator.store.legacy import convert_legacy
from nemo_evaluator.testing.script import load_script


def _laughs() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return "\n".join(lines)


def _chain() -> str:
    """Each line is small, and each alias one level deeper."""
    return "a0: &a0 [x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 2_000))


BOMBS = {
    "a billion laughs": _laughs(),
    "aliases in a chain": _chain(),
    "an alias of itself": "a: &a [*a]\nb: *a",
    "lists in lists": "[" * 100_000,
    "mappings in mappings": "{a: " * 20_000,
    "indented": "\n".join(" " * n + "a:" for n in range(2_000)),
    "a huge integer": f"a: {'9' * 1_000_000}",
    "a date that is none": "a: 2024-99-99",
    "the same key twice": "results: {}\nresults: {}",
    "a scalar of 60 MB": "a: " + "x" * 60_000_000,
    "a mapping as a key": "? {a: b}\n: c",
    "no UTF-8": "\udcff",
    "a tag": "!!python/object/apply:os.system [id]",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_by_every_reader(tmp_path: Path, bomb: str) -> None:
    data = BOMBS[bomb].encode("utf-8", "surrogateescape")
    began = time.process_time()
    with pytest.raises(yaml.YAMLError):
        load_yaml(data)
    (tmp_path / "results").mkdir()
    for name in ("results.yml", "settings.yaml", "results/results.yml"):
        (tmp_path / name).write_bytes(data)
    with pytest.raises(NelError):
        read_results(tmp_path)
    with pytest.raises(UsageError):
        read_settings("mlflow", tmp_path / "settings.yaml", ())
    with pytest.raises(UsageError):
        load_script(tmp_path / "settings.yaml")
    with pytest.raises(UsageError):
        convert_legacy(tmp_path)
    assert time.process_time() - began < 20


def test_ordinary_yaml_is_read() -> None:
    text = "base: &base {a: 1, b: [x, y]}\nother:\n  <<: *base\n  c: 2.5\nlist: [*base, *base]\n"
    assert load_yaml(text) == yaml.safe_load(text)
    assert load_yaml(text.encode()) == yaml.safe_load(text)
    assert load_yaml("") is None
