"""Instruction templates: what they may do, and what they may not."""

from __future__ import annotations

import time

import pytest
from jinja2.exceptions import SecurityError, UndefinedError

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.engine.template import InstructionTemplate

SEED = SeedResult("What is 2+2?", "4", metadata={"repo": "a/b", "tags": ["x", "y"], "n": 3})


def _render(text):
    return InstructionTemplate(text).apply(SEED).prompt


def test_ordinary_templates_render():
    text = "{{ original_prompt }} in {{ workspace_path }} {% for t in tags %}{{ t|upper }}{% endfor %}{{ n * 2 }}"
    assert _render(text) == "What is 2+2? in /testbed XY6"
    assert (
        _render(
            "{{ instance.repo }}{% for i in range(3) %}{{ i }}{% endfor %}{{ instance['n'] % 2 }}"
        )
        == "a/b0121"
    )
    with pytest.raises(UndefinedError):
        _render("{{ nothing }}")
    with pytest.raises(UsageError, match="line 2"):
        _render("a\n{% if %}")


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ original_prompt.__init__.__globals__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ tags.append('z') }}",
        "{{ instance.update(a=1) }}",
        "{{ ''['__cl' ~ 'ass__'] }}{{ (''|attr('__class__')).x }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ 'a' * 100000000 }}",
        "{{ [1] * 100000000 }}",
        "{{ 10 ** 10000000 }}",
        "{{ '%0999999999d' % 1 }}",
        "{{ 'a'.ljust(1000000000) }}",
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% set x = namespace(v='ab') %}{% for i in range(60) %}{% set x.v = x.v ~ x.v %}{{ x.v }}{% endfor %}",
    ],
)
def test_the_sandbox_holds(text):
    started = time.process_time()
    with pytest.raises((SecurityError, UndefinedError)):
        _render(text)
    assert time.process_time() - started < 2
    assert SEED.metadata["tags"] == ["x", "y"]
