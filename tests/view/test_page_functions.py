"""Functions of the page by themselves, called in a browser: numbers as text, routes, facts of a row."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_runs import write_run

from nemo_evaluator.view.page_html import STATIC, page_html

# The module, the function, its arguments, and what it returns.
_CALLS: list[tuple[str, str, list[Any], Any]] = [
    ("format", "plain", [None], "–"),
    ("format", "plain", [1], "1"),
    ("format", "plain", [10.25], "10.25"),
    ("format", "plain", [0.33333], "0.3333"),
    ("format", "signed", [0.5], "+0.5000"),
    ("format", "signed", [-0.25], "−0.2500"),
    ("format", "percent", [0.125], "12.5%"),
    ("format", "percent", [1], "100%"),
    ("format", "count", [12345], "12,345"),
    ("format", "money", [0], "–"),
    ("format", "money", [0.00123], "$0.0012"),
    ("format", "money", [12.5], "$12.50"),
    ("format", "duration", [999], "999 ms"),
    ("format", "duration", [1500], "1.5 s"),
    ("format", "bounds", [0.1, 0.9], "[0.100, 0.900]"),
    ("format", "bounds", [None, 0.9], ""),
    ("format", "size", [1023], "1023 B"),
    ("format", "size", [2048], "2 KB"),
    ("format", "size", [1572864], "1.5 MB"),
    ("format", "age", [59], "59s"),
    ("format", "age", [7200], "2h"),
    ("format", "age", [-5], "0s"),
    ("format", "visible", ["a\u202eb\u0000\tc\n"], "a‹202e›b‹0000›\tc\n"),
    ("format", "pathEnd", ["a/b/c"], "b/c"),
    (
        "route",
        "link",
        [["rows", "a b", "c/d"], {"q": "x&y", "at": 0, "empty": ""}],
        "#/rows/a%20b/c%2Fd?q=x%26y&at=0",
    ),
    ("route", "without", [{"a": "1", "b": "2"}, "a"], {"b": "2"}),
    (
        "rows_query",
        "rowsQuery",
        [{"cause": "x", "cols": "y", "at": "3", "sort": "z"}],
        {"cause": "x", "sort": "z"},
    ),
    (
        "rows_query",
        "filterNames",
        [{"cause": "x", "sort": "z", "label": "", "min_reward": "1"}],
        ["cause", "min_reward"],
    ),
    ("rows_query", "needsSearch", [{"meta.level": "3"}], True),
    ("rows_query", "needsSearch", [{"meta.level": "", "cause": "x"}], False),
    ("widgets", "verdictOf", [{"cause": "transport", "reward": 1}], "failed"),
    ("widgets", "verdictOf", [{"cause": None, "reward": None}], "unscored"),
    (
        "widgets",
        "verdictOf",
        [{"cause": None, "reward": 0.5, "unparsed": False, "truncated": False}],
        "partly",
    ),
    (
        "widgets",
        "verdictOf",
        [{"cause": None, "reward": 0, "unparsed": False, "truncated": True}],
        "truncated",
    ),
    (
        "row_facts",
        "judgements",
        [
            {
                "reasoning": "top",
                "scorer:judge": {"votes": [{"explanation": "deep"}, None, "text"]},
                "score": 1,
            }
        ],
        [["judge", "top"], ["votes", "deep"]],
    ),
    ("step", "isFailedStep", [{"observation": {"results": [{"content": "exit_code: 1"}]}}], True),
    ("step", "isFailedStep", [{"observation": {"results": [{"content": "exit_code: 0"}]}}], False),
    (
        "step",
        "isFailedStep",
        [{"observation": {"results": [{"content": "fine", "exit_code": 2}]}}],
        True,
    ),
    ("step", "isFailedStep", [{"error": "broken"}], True),
]


def test_the_page_names_every_script_so_that_they_load_side_by_side() -> None:
    page = page_html()
    preloaded = re.findall(r'<link rel="modulepreload" href="([\w./]+)">', page)
    scripts = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.js")}
    assert sorted(preloaded) == sorted(scripts - {"app.js"})


@pytest.mark.needs("chromium")
def test_functions_of_the_page_return_what_their_sentences_say(
    tmp_path: Path, serve: Callable[[Path], Any], page: Any
) -> None:
    write_run(tmp_path / "runs" / "base", 3)
    page.goto(serve(tmp_path / "runs").url)
    page.wait_for_selector("tbody[data-run]")
    call = """
    async calls => {
      const results = [];
      for (const [module, name, words] of calls) {
        const functions = await import(new URL(`${module}.js`, location.href));
        results.push(functions[name](...words));
      }
      return results;
    }
    """
    results = page.evaluate(call, [[module, name, words] for module, name, words, _ in _CALLS])
    wrong = [
        (module, name, words, result)
        for (module, name, words, expected), result in zip(_CALLS, results, strict=True)
        if result != expected
    ]
    assert wrong == []
