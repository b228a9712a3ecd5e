"""Rows that a careless page would obey: nothing runs, nothing breaks the layout, nothing leaves the machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import until
from made_runs import records, write_run

pytestmark = pytest.mark.needs("chromium")

_RUN = "window.owned=1"
HOSTILE = [
    f"<script>{_RUN}</script>",
    f"<img src=x onerror={_RUN}>",
    f"<svg onload={_RUN}><circle r=9 /></svg>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={_RUN}></style></mglyph></table></mtext></math>",
    f"[click](javascript:{_RUN})",
    f"[click](data:text/html,<script>{_RUN}</script>)",
    "![pixel](http://203.0.113.1/pixel.png)",
    "![pixel](https://203.0.113.1/a.png 'title')",
    "<link rel=stylesheet href=http://203.0.113.1/a.css>",
    "<style>body{display:none}</style>",
    "<iframe src=http://203.0.113.1></iframe>",
    "<object data=http://203.0.113.1></object>",
    "<form action=http://203.0.113.1><button autofocus>send</button></form>",
    "<base href=http://203.0.113.1/>",
    "<meta http-equiv=refresh content='0;url=http://203.0.113.1'>",
    f"<details open ontoggle={_RUN}>x</details>",
    f"<a href='javascript:{_RUN}' onmouseover={_RUN}>x</a>",
    f"<div style='position:fixed;inset:0;z-index:99999'>covered</div><body onload={_RUN}>",
    f"</pre></div></main><script>{_RUN}</script>",
    f"{{{{constructor.constructor('{_RUN}')()}}}} ${{{_RUN}}}",
    "\u202egnp.exe\u202c \u2066hidden\u2069 \u200b\u200bzero",
    "\x1b[2J\x1b[31mred\x1b]8;;http://203.0.113.1\x07link\x1b]8;;\x07",
    "x" * 1_000_000,
    "\u0335" * 5_000 + "Z" + "\u0300" * 3_000,
    "lone \ud800 surrogate \udfff",
    "\x00\x01\x02 nul and bell \x07\x08",
    "﷽" * 20_000,
    "[ref]: http://203.0.113.1\n\n<http://203.0.113.1> ![a][ref]",
    "```html\n<script>window.owned=1</script>\n```\n<!--" + "-->" * 50,
    "| a |\n|---|\n" + "| <img src=x onerror=window.owned=1> |\n" * 200,
    "__proto__ constructor toString",
]
NOT_IMAGES = [
    "data:image/png;base64,AAAA",
    "data:image/svg+xml;base64,PHN2Zy8+",
    "http://203.0.113.1/pixel.png",
    "data:text/html,<script>window.owned=1</script>",
    "javascript:window.owned=1",
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, serve: Callable[[Path], Any]) -> Any:
    root = tmp_path_factory.mktemp("hostile") / "runs"
    steps = []
    for at, text in enumerate(HOSTILE):
        answer, outcome = records(
            at, right=True, response=text, reasoning_content=text, expected_answer=text
        )
        images = [{"type": "image_url", "image_url": {"url": url}} for url in NOT_IMAGES]
        answer["messages"] = [
            {"role": "user", "content": [{"type": "text", "text": text}, *images]}
        ]
        answer["metadata"] = {
            "category": text[:200],
            text[:100] or "key": text[:300],
            "__proto__": {"x": 1},
        }
        outcome["scoring_details"] = {
            "extracted": text[:500],
            "reasoning": text[:5000],
            "tripwires": {text[:50]: text[:99]},
        }
        said = {
            "source": "agent",
            "message": text[:9000],
            "tool_calls": [{"function_name": text[:50], "arguments": text[:99]}],
        }
        answer["trajectory"] = [
            {
                "steps": [
                    said,
                    {"source": text[:40], "observation": {"results": [{"content": text[:999]}]}},
                ]
            }
        ]
        steps.append((answer, outcome))
    write_run(root / "base", steps=steps, model=HOSTILE[1], name="sums")
    write_run(
        root / "cand",
        steps=[(a, o | {"reward": 0.0}) for a, o in steps],
        model=HOSTILE[2],
        name="sums",
    )
    return serve(root)


def _harmless(page: Any, place: str) -> None:
    assert page.evaluate("window.owned") is None, place
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
        f"{place} sticks out"
    )
    assert (
        page.locator("main").locator("script, iframe, object, style, form, link, base").count() == 0
    ), place
    assert page.evaluate("getComputedStyle(document.body).display") == "block"
    ways = "[...document.querySelectorAll('main a')].map(one => one.getAttribute('href') ?? '#')"
    assert all(
        way.startswith(("http://", "https://", "#", "api/export?")) for way in page.evaluate(ways)
    ), place
    assert page.evaluate("document.querySelector('header.bar').checkVisibility()")


def test_hostile_rows_are_shown_and_do_nothing(served: Any, page: Any) -> None:
    assert len(HOSTILE) >= 30
    base, cand = served.key("base"), served.key("cand")
    for place in ("", f"run/{base}", f"compare/{base},{cand}"):
        page.goto(f"{served.url}#/{place}")
        page.wait_for_selector(".flips .diff, .panels figure" if place else "tbody[data-run]")
        _harmless(page, place)
    columns = "verdict,category,prompt,answer,extracted,expected"
    page.goto(f"{served.url}#/rows/{base}/sums?cols={columns}")
    page.wait_for_selector(".grid-row .chip")
    _harmless(page, "rows")
    for at in range(len(HOSTILE)):
        page.goto(f"{served.url}#/row/{base}/sums/{at}/0")
        until(page, f"document.querySelector('h1')?.innerText.startsWith('Problem {at}')")
        page.wait_for_selector(".answer > .text-box :is(.md, pre)", state="attached")
        page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        _harmless(page, json.dumps(HOSTILE[at][:40]))
        if page.locator(".answer .md img, .timeline img").count():
            pytest.fail(f"an image came out of {HOSTILE[at][:40]!r}")


def test_texts_that_turn_or_hide_are_shown_by_their_numbers(served: Any, page: Any) -> None:
    turned = next(at for at, text in enumerate(HOSTILE) if "\u202e" in text)
    page.goto(f"{served.url}#/row/{served.key('base')}/sums/{turned}/0")
    page.wait_for_selector(".answer > .text-box .md")
    assert "‹202e›gnp.exe‹202c›" in page.locator(".answer > .text-box .md").inner_text()
