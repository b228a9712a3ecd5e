"""What may be left out: the protocol, the solver, a provider's URL and key, variables of the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_evaluator.config import load_mapping
from nemo_evaluator.config.env_file import use_env_file
from nemo_evaluator.config.quick import find_provider, providers
from nemo_evaluator.core.errors import ConfigError, UsageError
from nemo_evaluator.core.secrets import scrub

API = {"type": "api", "url": "http://h/v1/chat/completions"}


@pytest.mark.parametrize(
    ("url", "protocol"),
    [
        ("http://h/v1/chat/completions", "chat_completions"),
        ("http://h/v1/completions", "completions"),
        ("http://h/v1/responses", "responses"),
        ("http://h/v1", "chat_completions"),
    ],
)
def test_the_protocol_is_read_off_the_url(url: str, protocol: str) -> None:
    loaded = load_mapping(
        {"services": {"m": {"type": "api", "url": url}}, "benchmarks": [{"name": "gsm8k"}]}
    )
    assert loaded.config.services["m"].protocol == protocol  # type: ignore[attr-defined]
    assert not loaded.warnings


@pytest.mark.parametrize(
    "solver", [None, {}, {"type": "simple"}, {"service": "m"}, {"system_prompt": "Think."}]
)
def test_the_only_model_answers(solver: dict[str, str] | None) -> None:
    judge = {"type": "judge", "name": "j", "service": "judge"}
    entry = {"name": "gsm8k", "scoring": {"metrics": [judge], "primary": "j"}, "solver": solver}
    config = load_mapping({"services": {"m": API, "judge": API}, "benchmarks": [entry]}).config
    assert (config.benchmarks[0].solver.type, config.benchmarks[0].solver.model_service) == (
        "simple",
        "m",
    )


def test_of_two_models_one_must_be_named_and_the_rest_is_said_too() -> None:
    with pytest.raises(ConfigError) as caught:
        load_mapping(
            {"services": {"a": API, "b": API}, "benchmarks": [{"name": "gsm8k", "repeats": 0}]}
        )
    said = {problem.path: problem.hint for problem in caught.value.problems}
    assert set(said) == {"benchmarks[0].solver", "benchmarks[0].repeats"}
    assert said["benchmarks[0].solver"].endswith("models: a, b")


@pytest.mark.parametrize(
    ("text", "url", "model", "key"),
    [
        ("openai/gpt-4.1", "https://api.openai.com/v1", "gpt-4.1", "OPENAI_API_KEY"),
        ("anthropic/claude", "https://api.anthropic.com/v1", "claude", "ANTHROPIC_API_KEY"),
        (
            "nvidia/nemotron",
            "https://integrate.api.nvidia.com/v1",
            "nvidia/nemotron",
            "NVIDIA_API_KEY",
        ),
        (
            "nvidia/meta/llama",
            "https://integrate.api.nvidia.com/v1",
            "meta/llama",
            "NVIDIA_API_KEY",
        ),
        ("together/meta/llama", "https://api.together.xyz/v1", "meta/llama", "TOGETHER_API_KEY"),
        ("vllm/meta/llama", "http://localhost:8000/v1", "meta/llama", None),
        ("ollama/llama3:8b", "http://localhost:11434/v1", "llama3:8b", None),
    ],
)
def test_providers(text: str, url: str, model: str, key: str | None) -> None:
    provider, found = find_provider(text)
    assert (provider.url, found, provider.key) == (url, model, key)


@pytest.mark.parametrize("text", ["opnai/gpt", "gpt-4.1", "openai/", "openai"])
def test_an_unknown_provider_lists_the_known_ones(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_provider(text)
    assert ", ".join(providers()) in str(caught.value.hint)
    assert ("did you mean openai/gpt?" in str(caught.value.hint)) == (text == "opnai/gpt")


ENV = """
# a comment
PLAIN=one two   # said
export QUOTED="a \\"b\\"\\nc"
SINGLE='as $it is # here'
EMPTY=
HASH=a#b
SET=from the file
SHORT_API_KEY=sk-0123456789abcdef
"""


def test_a_file_of_variables_never_wins_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {"SET": "before"})
    (tmp_path / ".env").write_text(ENV)
    assert use_env_file(tmp_path) == ["PLAIN", "QUOTED", "SINGLE", "EMPTY", "HASH", "SHORT_API_KEY"]
    assert {name: value for name, value in os.environ.items() if name != "SHORT_API_KEY"} == {
        "SET": "before",
        "PLAIN": "one two",
        "QUOTED": 'a "b"\nc',
        "SINGLE": "as $it is # here",
        "EMPTY": "",
        "HASH": "a#b",
    }
    assert scrub("key sk-0123456789abcdef") == "key ***"
    assert use_env_file(tmp_path / "nowhere") == []


def test_a_wrong_line_is_named_without_its_text(tmp_path: Path) -> None:
    (tmp_path / "e").write_text("A=1\nsk-secret-value-here\n")
    with pytest.raises(UsageError) as caught:
        use_env_file(tmp_path, str(tmp_path / "e"))
    assert caught.value.message.endswith("e:2: not NAME=VALUE")
    with pytest.raises(UsageError, match="cannot read"):
        use_env_file(tmp_path, str(tmp_path / "absent"))
