"""Configs from five answers: every combination loads, comments stay, nothing is overwritten, both vocabularies work."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from nemo_evaluator.assistant.build_config import (
    Question,
    SetupAnswers,
    ask_answers,
    ask_missing,
    build_config,
    questions,
)
from nemo_evaluator.assistant.recipes import recipes
from nemo_evaluator.assistant.yaml_text import MissingValue, missing_values, set_value
from nemo_evaluator.cli.main import nel
from nemo_evaluator.config import load_config
from nemo_evaluator.preflight import find_problems

VARIABLES = ("NGC_API_KEY", "NEMO_API_KEY", "HF_TOKEN", "JUDGE_API_KEY", "USER_API_KEY")
# What a user would type, by the last word of the path.
VALUES = {
    "url": "http://127.0.0.1:9/v1/chat/completions",
    "api_key": "NEMO_API_KEY",
    "dir": "/results",
    "tracking_uri": "sqlite:///mlflow.db",
    "model": "org/model-8b",
}


class Script:
    """Answers as a person would."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def choose(self, question: Question, default: str) -> str:
        self.asked.append(question.name)
        return self.answers.get(question.name, default)

    def value(self, missing: MissingValue) -> str:
        assert missing.hint, missing
        self.asked.append(missing.name)
        return VALUES.get(str(missing.path[-1]), "some-name")


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "secret-value-of-the-test")


def loads(text: str, folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    assert find_problems(load_config(path), file_only=True) == [], text


def combinations() -> tuple[list[dict[str, str]], list[str]]:
    """Every answer to the first four questions, and every set of bundles."""
    words = {name: [*one.words] for name, one in questions().items()}
    bundles = words.pop("benchmarks")
    sets = [
        ",".join(some) for size in range(1, 6) for some in itertools.combinations(bundles, size)
    ]
    return [
        dict(zip(words, values, strict=True)) for values in itertools.product(*words.values())
    ], sets


def drive(answers: dict[str, str], folder: Path) -> None:
    script = Script(**answers)
    text = ask_missing(script.value, build_config(ask_answers(script.choose, {})))
    assert script.asked[:5] == list(questions())
    assert "???" not in text
    loads(text, folder)


def test_every_answer_in_every_company_gives_a_config_that_loads(tmp_path: Path) -> None:
    others, sets = combinations()
    assert (len(others), len(sets)) == (90, 31)
    for number, answers in enumerate(others):
        drive(answers | {"benchmarks": sets[number % 31]}, tmp_path)


@pytest.mark.large
def test_all_combinations_of_answers_give_configs_that_load(tmp_path: Path) -> None:
    others, sets = combinations()
    for answers in others:
        for some in sets:
            drive(answers | {"benchmarks": some}, tmp_path)


@pytest.mark.parametrize("model_type", ["base", "chat", "reasoning", "chat_reasoning"])
def test_the_other_bundles_and_every_recipe_load(model_type: str, tmp_path: Path) -> None:
    names = [*questions()["benchmarks"].hidden, *recipes()]
    fitting = tuple(name for name in names if (name, model_type) != ("agentic", "base"))
    loads(
        ask_missing(
            Script().value, build_config(SetupAnswers(model_type=model_type, benchmarks=fitting))
        ),
        tmp_path,
    )


def build(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(nel, ["skills", "build-config", *words])
    assert (done.exception is None) == (code == 0), done.output
    return done.output if code == 0 else str(done.exception)


def test_both_vocabularies_and_names_that_are_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    old = ["--execution", "slurm", "--deployment", "vllm", "--model-type", "reasoning"]
    assert "Config written to: slurm_vllm_reasoning_math_reasoning_standard.yaml" in build(
        *old, "--benchmarks", "standard", "math_reasoning", "--export", "none"
    )
    before = Path("slurm_vllm_reasoning_math_reasoning_standard.yaml").read_bytes()
    said = build(*old, "--benchmarks", "standard", "--benchmarks", "math_reasoning")
    assert "_standard_1.yaml" in said
    assert before == Path("slurm_vllm_reasoning_math_reasoning_standard.yaml").read_bytes()
    assert "execution.account: account that is charged" in said
    new = build(
        "-e",
        "local",
        "-d",
        "trtllm",
        "--model_type",
        "chat_reasoning",
        "-b",
        "core_reasoning",
        "agentic",
        "-o",
        "new/d",
    )
    assert "Config written to: new/d/local_trtllm_chat_reasoning_agentic_core_reasoning.yaml" in new
    assert "local_none_base_general_knowledge.yaml" in build(
        "-e", "local", "-d", "none", "-m", "base", "-b", "general_knowledge"
    )
    assert "mmlu" in Path("local_none_base_general_knowledge.yaml").read_text()
    build("-e", "local", "-d", "none", "-m", "base", "-b", "code", "-o", "x/own.yaml")
    assert [Path("x/own.yaml").is_file(), Path("x/own_1.yaml").is_file()] == [True, False]
    build("-e", "local", "-d", "none", "-m", "base", "-b", "coding", "-o", "x/own.yaml")
    assert Path("x/own_1.yaml").is_file()


def test_wrong_words_are_named_with_those_that_are_right() -> None:
    rest = ["-e", "local", "-d", "none", "-b", "standard"]
    assert "'resoning' is unknown" in build(*rest, "--model-type", "resoning", code=1)
    said = build("-e", "local", "-d", "none", "-m", "base", "-b", "agentic", code=1)
    assert "agentic has no benchmarks for a base model" in said


def test_yes_lists_what_is_missing_and_set_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(nel, ["init", "--yes"])
    assert "values are missing" in str(done.exception)
    assert list(tmp_path.iterdir()) == []
    done = CliRunner().invoke(
        nel,
        [
            "init",
            "--yes",
            "--model",
            "openai/gpt-4.1",
            "--set",
            "benchmarks.0.max_problems=7",
            "--set",
            "output.dir=here",
        ],
        catch_exceptions=False,
    )
    text = Path("local_none_chat_standard.yaml").read_text()
    assert done.exit_code == 0
    data = yaml.safe_load(text)
    assert data["services"]["model"] | {"timeouts": 0, "retry": 0, "generation": 0} == {
        "type": "api",
        "url": "https://api.openai.com/v1/chat/completions",
        "model": "gpt-4.1",
        "api_key": "${OPENAI_API_KEY}",
        "protocol": "chat_completions",
        "max_concurrent": 16,
        "timeouts": 0,
        "retry": 0,
        "generation": 0,
    }
    assert data["benchmarks"][0]["max_problems"] == 7
    assert data["output"] == {"dir": "here"}
    assert "# `nel canary` measures what the endpoint takes" in text


def test_a_key_in_the_place_of_its_variable_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    typed = ["http://h/v1/chat/completions", "m", "sk-live-0123456789", "MY_KEY", "y"]
    flags = [
        "-e",
        "local",
        "-d",
        "none",
        "-x",
        "none",
        "-m",
        "chat",
        "-b",
        "safety",
        "-o",
        "c.yaml",
    ]
    done = CliRunner().invoke(nel, ["init", *flags], input="\n".join(typed) + "\n")
    assert "not the key" in done.output
    assert yaml.safe_load(Path("c.yaml").read_text())["services"]["model"]["api_key"] == "${MY_KEY}"
    assert "sk-live" not in Path("c.yaml").read_text()


YAML = """\
# head
a: 1        # one
b:          # a block
  c: [x, y]  # two
  d:
    - e: ???   # what e is
    # end of d
f: {g: 1}
h:
"""


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (["a"], 2, "a: 2        # one"),
        (["a"], "x: y", "a: 'x: y'        # one"),
        (["b", "c", 1], "z, z", '  c: [x, "z, z"]  # two'),
        (["b", "c"], ["--max-model-len", "9"], '  c: ["--max-model-len", "9"]  # two'),
        (["b", "d", 0, "e"], "${NAME}", '    - e: "${NAME}"   # what e is'),
        (["b", "d", "0", "n"], {"k": 1}, '      n: {"k": 1}'),
        (["b", "d", "1"], "more", "    - more"),
        (["f", "k"], "${N}", 'f: {g: 1, k: "${N}"}'),
        (["h"], 3, "h: 3"),
        (["new", "deep"], True, 'new: {"deep": true}'),
        (["b", "new"], None, "  new: null"),
    ],
)
def test_one_value_changes_and_every_comment_stays(
    path: list[str | int], value: object, line: str
) -> None:
    text = set_value(YAML, path, value)
    assert line in text.splitlines()
    place = yaml.safe_load(text)
    for key in path:
        place = place[int(key) if isinstance(place, list) else key]
    assert place == value
    assert [
        word
        for word in ("# head", "# one", "# a block", "# two", "# what e is", "# end of d")
        if word not in text
    ] == []


def test_missing_values_are_found_with_their_hints() -> None:
    assert missing_values(YAML) == [MissingValue(("b", "d", 0, "e"), "what e is")]


def test_recipes_are_shown_and_given_as_json() -> None:
    names = list(recipes())
    assert names[:5] == ["mmlu_pro", "mmmu_pro", "gpqa", "aime2025", "livecodebench"]
    assert names[5:] == ["ifbench", "scicode", "aa_lcr", "ns_hle_aa", "tau2_bench_telecom"]
    for name in names:
        shown = CliRunner().invoke(nel, ["recipe", name], catch_exceptions=False).output
        assert yaml.safe_load(shown)["benchmarks"][0] == recipes()[name].benchmark
    found = json.loads(CliRunner().invoke(nel, ["recipe", "nemo_skills.ns_gpqa", "--json"]).output)
    assert (found["name"], found["repeats"], found["benchmark"]["name"]) == ("gpqa", 16, "gpqa")
    assert "there is no recipe 'gqpa'" in str(CliRunner().invoke(nel, ["recipe", "gqpa"]).exception)
