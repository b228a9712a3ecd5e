"""Every ``nel`` line of the documentation that test_docs does not run: named here with the reason, and parsed."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import click
import pytest

from nemo_evaluator.cli.main import nel

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^ *```(?P<kind>\w*)\n(?P<text>.*?)^ *```", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^ *(?:\$ )?(?:\w+=\S+ )*(?P<words>nel .*)$", re.MULTILINE)

_OF_A_LAUNCHER = (
    *(
        "run --config CONFIG -o",
        "run --config CONFIG -t",
        "status INVOCATION",
        "info INVOCATION",
        "logs INVOCATION",
    ),
    *("kill INVOCATION", "resume INVOCATION", "export INVOCATION"),
)
# What is shown and not run on its page, by the beginning of the line; an entry that nothing begins with is an error.
NOT_RUN = {
    "nel eval run examples/configs/00_quickstart": "takes minutes; run with --limit by tests/examples",
    "nel check INVOCATION": "needs a run; tests/launcher/test_results_by_id.py",
    "nel compare BASELINE_INVOCATION": "needs two runs; tests/launcher/test_results_by_id.py",
    "nel show": "a problem of a whole dataset; tests/benchmarks compares the page with it where the dataset is there",
    "nel config check broken.yaml": "its output is the point; tests/config has the same mistakes",
    "nel config schema --markdown > docs/config-reference.md": "test_docs compares its output with the page",
    "nel eval run --bench gsm8k --model openai/": "asks a paid endpoint; tests/e2e/test_limits.py",
    "nel eval run --bench simpleqa --model openai/": "asks a paid endpoint; tests/e2e/test_quick_judge.py",
    "nel eval run --bench capitals.py": "shown with its output; the block before it is run",
    "nel eval run --bench quickstart --model-url http://localhost": "the reader's endpoint; run with variables",
    "nel data update": "changes the lock file of the reader",
    "nel data mirror": "downloads; tests/datasets mirrors a small dataset",
    "nel data verify": "needs that mirror; tests/datasets verifies one",
    "nel package": "builds and pushes an image; tests/cli/test_package.py",
    "nel serve": "a server that does not end; tests/e2e/test_gym.py",
    "nel canary": "asks the reader's endpoint; tests/assistant/test_canary.py",
    "nel eval run eval.yaml --gated": "asks the reader's endpoint; tests/assistant/test_canary.py",
    "nel inspect-model": "needs a checkpoint; tests/assistant/test_inspect_model.py",
    "nel judge": "needs people or an endpoint; tests/decisions/test_calibrate.py, tests/scoring/test_attack.py",
    "nel noise": "asks the reader's endpoint; tests/suite/test_noise.py",
    **{
        f"nel {word}": "on a run of the reader; tests/launcher/test_commands.py"
        for word in _OF_A_LAUNCHER
    },
    "nel eval run config.yaml --detach-batch": "asks a vendor; tests/e2e/test_batch.py",
    "nel eval status -o results": "of that run; tests/e2e/test_batch.py",
    "nel view": "a server that does not end; tests/view",
    "nel proxy": "a server that does not end; tests/adapters starts it",
}


@cache
def lines(*kinds: str) -> list[tuple[str, str]]:
    """Page and line of every command in blocks of these kinds; lines that go on are joined."""
    found = []
    for page in PAGES:
        for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            if block["kind"] in kinds:
                text = block["text"].replace("\\\n", " ")
                found += [
                    (str(page.relative_to(ROOT)), match["words"].strip())
                    for match in _LINE.finditer(text)
                ]
    return found


def test_what_is_not_run_is_named_with_its_reason() -> None:
    run = [words for _, words in lines("bash")]
    said = [
        (page, words.partition(" #")[0].strip()) for page, words in lines("console", "text", "")
    ]
    shown = [(page, words) for page, words in said if not any(one.startswith(words) for one in run)]
    unnamed = [one for one in shown if not one[1].startswith(tuple(NOT_RUN))]
    assert unnamed == [], "make it a bash block, which is run, or name it above"
    idle = [start for start in NOT_RUN if not any(words.startswith(start) for _, words in shown)]
    assert idle == [], "nothing begins like this any more"


@pytest.mark.parametrize("line", sorted({words for _, words in lines("console", "text", "")}))
def test_what_is_shown_is_a_command_with_options_that_it_has(line: str) -> None:
    words = shlex.split(re.split(r" [|>#]| && ", line.replace("<Tab>", ""))[0])[1:]
    command: click.Command = nel
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"no command {words[0]!r}"
        command, words = found, words[1:]
    try:
        command.make_context(command.name, list(words))
    except click.BadParameter as error:
        assert "does not exist" in error.message, error
