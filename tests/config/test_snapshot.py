"""full_config.yaml: can be run again, and holds no secret."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nemo_evaluator.config import load_config, snapshot_text, write_snapshot

TEXT = """
defaults: [{_base_: base}]
_v: 3
services:
  m: {type: api, url: "http://h/v1", protocol: chat_completions, api_key: "${NEL_TEST_KEY}",
      proxy: {extra_headers: {X-Api-Key: "literal-secret"}}}
benchmarks:
  - {name: a, solver: {type: simple, service: m}, max_problems: "${._v}", shuffle_seed: null}
"""
BASE = "output: {dir: base, report: [json]}\n"


@pytest.fixture
def source(write, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEL_TEST_KEY", "sk-from-environment")
    path: Path = write(config=TEXT, base=BASE)
    return path


def test_it_is_the_composed_config_with_references_unexpanded(source: Path, tmp_path: Path) -> None:
    loaded = load_config(source, ["benchmarks.0.repeats=2"], output_dir="else")
    target = write_snapshot(
        loaded, tmp_path / "out", run_id="r1", command=["nel", "eval", "run", "a b.yaml"]
    )
    assert target == tmp_path / "out" / "full_config.yaml"
    text = target.read_text()
    data = yaml.safe_load(text)
    assert data["services"]["m"]["api_key"] == "${NEL_TEST_KEY}"
    assert data["benchmarks"][0] == {
        "name": "a",
        "solver": {"type": "simple", "service": "m"},
        "max_problems": 3,
        "shuffle_seed": None,
        "repeats": 2,
    }
    assert data["output"] == {"dir": "else", "report": ["json"]}
    header = [line for line in text.splitlines() if line.startswith("#")]
    assert header[0] == "# Run it again with: nel eval run full_config.yaml"
    assert "# command: nel eval run 'a b.yaml'" in header
    assert "# overrides: benchmarks.0.repeats=2" in header
    assert "# run_id: r1" in header
    assert "# masked: services.m.proxy.extra_headers.X-Api-Key" in header
    assert "literal-secret" not in text
    assert "sk-from-environment" not in text


def test_run_again_it_gives_the_same_config(source: Path, tmp_path: Path) -> None:
    loaded = load_config(source, ["services.m.proxy=null"])
    target = write_snapshot(loaded, tmp_path)
    assert target is not None
    assert load_config(target).config == loaded.config


def test_secrets_of_overrides_are_masked_everywhere(source: Path) -> None:
    overrides = [
        "services.m.api_key=sk-literal",
        "services.n={type: api, url: 'http://h', protocol: completions, api_key: sk-inline}",
    ]
    loaded = load_config(source, overrides)
    text = snapshot_text(loaded, command=["nel", "eval", "run", "c.yaml", *overrides])
    assert "sk-literal" not in text
    assert "sk-inline" not in text
    assert "services.m.api_key=***" in text
    assert yaml.safe_load(text)["services"]["m"]["api_key"] == "***"


def test_line_breaks_stay_inside_the_comment(source: Path) -> None:
    text = snapshot_text(load_config(source), command=["nel", "a\nservices: {}"])
    assert yaml.safe_load(text)["services"]["m"]["type"] == "api"


def test_when_it_is_written(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_config(source)
    assert write_snapshot(loaded, tmp_path) is not None
    monkeypatch.setenv("NEL_INNER_EXECUTION", "1")
    assert write_snapshot(loaded, tmp_path / "inner") is None
    assert not (tmp_path / "inner").exists()
