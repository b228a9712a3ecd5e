"""nel config show, get, set, unset: what is kept is used."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from nel_support import Told

from nemo_evaluator.cli.config import config as command
from nemo_evaluator.config import load_config, settings_path
from nemo_evaluator.core.errors import ConfigError

TEXT = """
services: {}
benchmarks:
  - {name: gsm8k, solver: {type: oracle}}
  - {name: mmlu, solver: {type: oracle}, max_concurrent: 2}
"""


def nel(*arguments: str) -> Result:
    return CliRunner().invoke(Told(command), arguments)


def test_kept_values_are_defaults_of_every_run(write) -> None:
    for key, value in (
        ("output.dir", "kept"),
        ("datasets.mirror", "/m"),
        ("defaults.max_concurrent", "9"),
    ):
        assert nel("set", key, value).exit_code == 0
    loaded = load_config(write(a=TEXT))
    assert loaded.config.output.dir == "kept"
    assert loaded.config.datasets.mirror == "/m"
    assert [benchmark.max_concurrent for benchmark in loaded.config.benchmarks] == [9, 2]
    assert loaded.raw["output"]["dir"] == "kept"
    assert load_config(write(a=TEXT + "output: {dir: own}\n")).config.output.dir == "own"
    assert load_config(write(a=TEXT), output_dir="flag").config.output.dir == "flag"
    assert load_config(write(a=TEXT), ["output.dir=override"]).config.output.dir == "override"


def test_the_mirror_of_the_environment_wins(write, monkeypatch: pytest.MonkeyPatch) -> None:
    nel("set", "datasets.mirror", "/kept")
    monkeypatch.setenv("NEL_DATA_MIRROR", "/environment")
    assert load_config(write(a=TEXT)).config.datasets.mirror is None


def test_show_get_unset() -> None:
    assert nel("get", "output.dir").exit_code == 1
    nel("set", "output.report", "[json, html]")
    nel("set", "defaults.timeout", "5.5")
    assert nel("get", "output.report").stdout == '["json", "html"]\n'
    assert nel("get", "defaults").stdout == '{"timeout": 5.5}\n'
    assert nel("show").stdout == (
        f"# {settings_path()}\noutput:\n  report:\n  - json\n  - html\ndefaults:\n  timeout: 5.5\n"
    )
    assert nel("unset", "defaults.timeout").exit_code == 0
    assert nel("unset", "defaults.timeout").exit_code == 1
    assert "defaults" not in nel("show").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("set", "output.dri", "x"), "did you mean 'output.dir'?"),
        (("set", "api_key", "x"), "known: output.dir"),
        (("set", "output", "x"), "did you mean"),
        (("set", "defaults.max_concurrent", "many"), "a whole number is expected"),
        (("set", "defaults.max_concurrent", "0"), "at least 1"),
        (("get", "nope"), "known: output.dir"),
        (("unset", "output.dir"), "is not set"),
    ],
)
def test_wrong_keys_and_values_are_refused(arguments: tuple[str, ...], said: str) -> None:
    result = nel(*arguments)
    assert result.exit_code == 1
    assert said in result.output
    assert not settings_path().exists()


def test_a_broken_settings_file_is_explained(write) -> None:
    settings_path().parent.mkdir(parents=True)
    settings_path().write_text("output:\n  report: [pdf]\n")
    with pytest.raises(ConfigError) as caught:
        load_config(write(a=TEXT))
    problem = caught.value.problems[0]
    assert (problem.path, problem.line, problem.source) == (
        "output.report[0]",
        2,
        str(settings_path()),
    )
    assert nel("show").exit_code == 1
    settings_path().write_text("")
    assert nel("show").exit_code == 0


def test_keys_of_other_programs_are_a_warning_and_stay(write) -> None:
    settings_path().parent.mkdir(parents=True)
    settings_path().write_text("telemetry: {enabled: false}\noutput:\n  dri: x\n  dir: kept\n")
    loaded = load_config(write(a=TEXT))
    assert [line.partition(": ")[2] for line in loaded.warnings] == [
        "telemetry is not a setting of nel",
        "output.dri is not a setting of nel; did you mean output.dir?",
    ]
    assert loaded.config.output.dir == "kept"
    assert "telemetry" in nel("show").stderr
    assert nel("set", "defaults.timeout", "5").exit_code == 0
    held = yaml.safe_load(settings_path().read_text())
    assert held == {
        "telemetry": {"enabled": False},
        "output": {"dri": "x", "dir": "kept"},
        "defaults": {"timeout": 5},
    }


def test_check_says_what_a_right_file_holds(write, tmp_path: Path) -> None:
    path = write(
        a=TEXT.replace(
            "{}", "{m: {type: api, url: 'http://h/v1/responses', protocol: completions}}"
        )
    )
    result = nel("check", "--file-only", str(path))
    assert result.exit_code == 0
    assert result.stdout == (
        f"ok: {path}\n  services: m (api)\n  cluster: local\n  output: ./eval_results\n"
        "  benchmark gsm8k: all problems x 1, solver oracle\n  benchmark mmlu: all problems x 1, solver oracle\n"
    )
    assert result.stderr.startswith("warning: the URL path implies responses")
    wrong = nel("check", "--file-only", str(path), "-O", "benchmarks.0.repeats=0")
    assert wrong.exit_code == 1
    assert wrong.stdout == ""
    assert wrong.stderr == (
        f"error: 1 problem in {path}\n\n"
        "  benchmarks[0].repeats (from -O benchmarks.0.repeats): 0 is out of range\n"
        "    hint: the value must be at least 1\n"
    )
