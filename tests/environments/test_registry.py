"""Names, files and URIs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import SeedResult, VerifyResult
from nemo_evaluator.environments import (
    EvalEnvironment,
    get_environment,
    list_environments,
    load_benchmark_file,
    register,
)

ONE = """
from nemo_evaluator.environments.custom import benchmark, scorer, ScorerInput
@benchmark(name="{name}", dataset=lambda: [{{"q": "a", "target": "t"}}], prompt="{{q}}")
@scorer
def score(sample: ScorerInput) -> dict:
    return {{"correct": True}}
"""


def write(path: Path, *names: str) -> str:
    path.write_text("".join(ONE.format(name=name) for name in names))
    return str(path)


def test_a_file_with_one_benchmark_is_named_by_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "my_file.py", "Only-One")
    assert get_environment(path).name == "Only-One"
    assert get_environment(f"{path}:only-one").name == "Only-One"
    assert load_benchmark_file(path) == ["only-one"]
    assert "only-one" in list_environments()


def test_a_file_with_several_benchmarks(tmp_path: Path) -> None:
    path = write(tmp_path / "two.py", "first_of_two", "second_of_two")
    assert get_environment(f"{path}:second_of_two").name == "second_of_two"
    with pytest.raises(UsageError, match="has 2 benchmarks") as caught:
        get_environment(path)
    assert f"{path}:first_of_two" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="has no benchmark 'third'"):
        get_environment(f"{path}:third")
    stem = write(tmp_path / "stem-name.py", "stem_name", "other_than_stem")
    assert get_environment(stem).name == "stem_name"


def test_two_files_may_use_one_name(tmp_path: Path) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    write(first, "shared_name")
    second.write_text(first.read_text().replace('"q": "a"', '"q": "from the second"'))
    get_environment(str(first))
    get_environment(str(second))
    assert get_environment(str(first)).dataset[0]["q"] == "a"
    assert get_environment(str(second)).dataset[0]["q"] == "from the second"


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        get_environment(str(tmp_path / "none.py"))
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    with pytest.raises(UsageError, match="defines no benchmark"):
        get_environment(str(empty))
    broken = tmp_path / "broken.py"
    broken.write_text("import json\n\nraise RuntimeError('oh no')\n")
    with pytest.raises(UsageError, match=r"broken\.py:3: RuntimeError: oh no"):
        get_environment(str(broken))
    syntax = tmp_path / "syntax.py"
    syntax.write_text("def f(:\n")
    with pytest.raises(UsageError, match=r"syntax\.py:1: SyntaxError"):
        get_environment(str(syntax))


def test_shadowing_a_built_in_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    code = (
        "import logging; logging.basicConfig()\n"
        "from nemo_evaluator.environments import get_environment\n"
        f"print(len(get_environment({write(tmp_path / 'mine.py', 'GSM8K')!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    assert "shadows" in done.stderr


def test_names() -> None:
    assert get_environment("QuickStart").name == "quickstart"
    with pytest.raises(UsageError, match="unknown benchmark 'gms8k'") as caught:
        get_environment("gms8k")
    assert "did you mean 'gsm8k'?" in (caught.value.hint or "")


def test_unknown_scheme() -> None:
    with pytest.raises(UsageError, match="unknown scheme lmeval://") as caught:
        get_environment("lmeval://mmlu")
    assert caught.value.hint == "did you mean lm-eval://?"


def test_a_registered_class_gets_what_its_constructor_takes() -> None:
    @register("Handmade")
    class Handmade(EvalEnvironment):
        def __init__(self, level: int = 1) -> None:
            self.level = level

        async def seed(self, idx: int) -> SeedResult:
            return SeedResult("p", "e")

        async def verify(
            self, response: str, expected: str, sandbox: Any = None, **metadata: Any
        ) -> VerifyResult:
            return VerifyResult(1.0)

    env = get_environment("handmade", num_examples=3, params={"level": 2})
    assert (env.name, env.level) == ("Handmade", 2)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="no parameter 'lvl'") as caught:
        get_environment("handmade", params={"lvl": 2})
    assert caught.value.hint == "accepted: level"
    with pytest.raises(UsageError, match="no few-shot"):
        get_environment("handmade", num_fewshot=2)
