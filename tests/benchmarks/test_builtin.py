"""Every built-in: its definition is whole, and every row of it that the mirror holds can be asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.benchmarks import boolq, builtin_names
from nemo_evaluator.benchmarks._self_test import self_test
from nemo_evaluator.environments import BenchmarkEnvironment, environment_class, get_environment
from nemo_evaluator.environments._verdict import fingerprint

SELF_TESTS = {name: self_test(name) for name in sorted(builtin_names())}
IN_MIRROR = [name for name, test in SELF_TESTS.items() if test.mirror_rows is not None]


def test_listing_the_built_ins_imports_none() -> None:
    program = (
        "import sys; from nemo_evaluator.environments import list_environments; "
        "names = list_environments(); "
        "loaded = [n for n in sys.modules if n.startswith('nemo_evaluator.benchmarks.')]; "
        "assert 'gsm8k' in names and '_rows' not in names and not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", SELF_TESTS)
def test_every_definition_is_whole(name: str) -> None:
    environment = environment_class(name)
    assert issubclass(environment, BenchmarkEnvironment)
    definition = environment.definition
    info = definition.info
    assert definition.name == name
    assert definition.score is not None
    assert (
        info.title
        and info.group != "custom"
        and info.scorer
        and info.license
        and info.source
        and info.columns
    )
    assert definition.description
    assert set(definition.params) == set(info.params)


@pytest.mark.needs("mirror")
@pytest.mark.parametrize("name", IN_MIRROR)
async def test_every_row_can_be_asked(name: str, full_mirror: Path) -> None:
    stated = SELF_TESTS[name]
    env = get_environment(name, params=stated.params, num_fewshot=stated.fewshot)
    assert len(env) == stated.mirror_rows
    for idx in range(len(env)):
        seed = await env.seed(idx)
        assert seed.prompt.strip()
        assert seed.expected_answer or not stated.has_target
        assert "{fewshot}" not in seed.prompt
        assert seed.metadata["benchmark"] == name
    await env.close()


def test_the_page_text_is_no_part_of_the_scorer_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A better wording must not make users' verdicts be computed again; another scorer must."""
    source = Path(str(boolq.__file__)).read_text(encoding="utf-8")
    file = tmp_path / "boolq.py"
    monkeypatch.setattr("nemo_evaluator.environments._verdict._OWN_FOLDER", tmp_path)

    def fingerprint_of(text: str) -> str:
        file.write_text(text, encoding="utf-8")
        code = compile("def scorer(sample): pass", str(file), "exec")
        namespace: dict[str, Any] = {}
        exec(code, namespace)
        return fingerprint([namespace["scorer"]], {})

    original = fingerprint_of(source)
    assert (
        fingerprint_of(source.replace("The word is generated", "A word is generated")) == original
    )
    assert fingerprint_of(source.replace("SelfTest()", "SelfTest(mirror_rows=3)")) == original
    assert fingerprint_of(source.replace('("yes", "no")', '("yes", "nope")')) != original


@pytest.mark.needs("mirror")
async def test_a_file_put_into_a_mirror_by_hand_is_found_by_its_name(
    mirror_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror as it is: its index names no file of XSTest, which is a file of the web."""
    monkeypatch.setenv("NEL_DATA_MIRROR", str(mirror_dir))
    env = get_environment("xstest")
    assert len(env) == SELF_TESTS["xstest"].mirror_rows
    await env.close()
