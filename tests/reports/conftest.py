"""Bundles and rows as a run writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.files import dumps, write_json

HOSTILE = '<script>document.title="owned"</script><img src=x onerror=alert(1)>|`${{7*7}}'


def bundle_of(name: str = "gsm8k", model: str = "m-1", **changes: Any) -> dict[str, Any]:
    """A bundle with every field of the contract."""
    bench: dict[str, Any] = {
        "name": name,
        "samples": 12,
        "repeats": 2,
        "coverage": {"planned": 24, "scored": 22, "failed": 2, "share": 22 / 24},
        "truncated_share": 0.125,
        "unparsed_share": 0.0,
        "scores": {
            "pass@1": {
                "value": 0.25,
                "ci_lower": 0.0,
                "ci_upper": 0.55,
                "ci_method": "wilson",
                "n": 12,
            },
            "pass@2": {
                "value": 0.5,
                "ci_lower": 0.2,
                "ci_upper": 0.8,
                "ci_method": "wilson",
                "n": 12,
            },
            "scorer:strict": {
                "value": 0.2,
                "ci_lower": 0.1,
                "ci_upper": 0.4,
                "correct": 5,
                "total": 22,
            },
            "summary": {"mean": 0.25, "std": 0.4, "min": 0.0, "max": 1.0, "median": 0.0, "n": 22},
            "breakdowns": {
                "level": [
                    {"group": "hard", "n": 4, "mean_reward": 0.1, "ci_lower": 0.0, "ci_upper": 0.3},
                    {
                        "group": "easy",
                        "n": 18,
                        "mean_reward": 0.3,
                        "ci_lower": 0.1,
                        "ci_upper": 0.5,
                    },
                ]
            },
            "runtime": {
                "total_steps": 24,
                "total_tokens": 12345,
                "elapsed_seconds": 61.5,
                "latency_percentiles_ms": {"p50": 120.0, "p90": 300.0, "p99": 900.0},
                "tokens_per_second": 200.7,
                "finish_reason_counts": {"stop": 19, "length": 3},
            },
            "failures": {
                "total_steps": 24,
                "total_failures": 2,
                "failure_rate": 2 / 24,
                "categories": {
                    "transport": {
                        "count": 2,
                        "percentage": 2 / 24,
                        "exemplars": [{"problem_idx": 3, "repeat": 0, "error": "connection reset"}],
                    }
                },
            },
        },
        "categories": {
            "algebra": {"mean_reward": 0.4, "n": 10, "ci_lower": 0.2, "ci_upper": 0.6},
            "geometry": {"mean_reward": 0.0, "n": 12, "ci_lower": 0.0, "ci_upper": 0.2},
        },
    }
    bench.update(changes.pop("bench", {}))
    return {
        "run_id": f"eval-20261115T001802Z-{name}",
        "config_hash": "sha256:aa",
        "sdk_version": "0.5.0",
        "timestamp": "2026-11-15T00:18:02+00:00",
        "validity": {"status": "VALID", "reasons": []},
        "config": {"benchmark": name, "model": model, "repeats": 2},
        "benchmark": bench,
        "n_results": 24,
        **changes,
    }


def row_of(at: int, repeat: int = 0, **changes: Any) -> dict[str, Any]:
    """A row of results.jsonl."""
    return {
        "problem_idx": at,
        "repeat": repeat,
        "status": "scored",
        "reward": float(at % 2),
        "scorer_rewards": {},
        "prompt": f"question {at}",
        "model_response": f"answer {at}",
        "extracted_answer": str(at),
        "expected_answer": "1",
        "scoring_details": {},
        "metadata": {"category": "algebra"},
        "tokens": 30 + at,
        "prompt_tokens": 20,
        "completion_tokens": 10 + at,
        "finish_reason": "stop",
        "latency_ms": 100.0 + 7 * at,
        "failure": None,
        "attempts": 1,
        "problem_hash": f"{at:032x}",
        **changes,
    }


Writer = Callable[..., Path]


@pytest.fixture
def write_task(tmp_path: Path) -> Writer:
    """Write a task folder: ``write_task(bundle, rows, folder=..., stamp=...)`` gives the bundle's path."""

    def write(
        bundle: dict[str, Any],
        rows: list[dict[str, Any]] | None = None,
        folder: str | None = None,
        stamp: str = "20261115T001802Z",
    ) -> Path:
        name = bundle["benchmark"]["name"]
        task = tmp_path / "out" / (folder or name)
        path = task / f"eval-{stamp}-{name}.json"
        write_json(path, bundle)
        if rows is not None:
            (task / "results.jsonl").write_bytes(b"".join(dumps(row) + b"\n" for row in rows))
        return path

    return write


@pytest.fixture(name="bundle_of")
def _bundle_of() -> Callable[..., dict[str, Any]]:
    return bundle_of


@pytest.fixture(name="row_of")
def _row_of() -> Callable[..., dict[str, Any]]:
    return row_of


@pytest.fixture
def hostile() -> str:
    """Text that a careless renderer would run."""
    return HOSTILE


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for a module: its loop would be in the way of other modules' own."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as parts:
        browser = parts.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_quietly(browser: Any) -> Iterator[Callable[[Path], Any]]:
    """Opens a file in a page that must not run, say, ask or load anything."""
    page = browser.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.on("dialog", lambda dialog: (errors.append("a dialog opened"), dialog.dismiss()))
    page.on("request", lambda request: requests.append(request.url))

    def go(file: Path) -> Any:
        page.goto(file.as_uri())
        assert errors == []
        assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
        assert page.locator("script, img, iframe").count() == 0
        return page

    yield go
    page.close()


# Ratio of every text to what is behind it, and of every drawn thing, as WCAG 2.1 defines it.
_CONTRASTS = """() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const over = (top, below) => { const a = top[3] ?? 1; return [0, 1, 2].map(i => a * top[i] + (1 - a) * below[i]); };
  const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = c.map(linear); return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05; };
  const ratio = (a, b) => Math.max(light(a), light(b)) / Math.min(light(a), light(b));
  const behind = one => {
    const layers = [];
    for (let at = one; at; at = at.parentElement) layers.push(rgb(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    const style = getComputedStyle(one), what = one.outerHTML.slice(0, 120);
    const own = [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!one.checkVisibility() || one.tagName.toLowerCase() === "title") continue;
    if (own) {
      const size = parseFloat(style.fontSize), big = size >= 24 || (size >= 18.6 && style.fontWeight >= 700);
      const colour = rgb(one.closest("svg") ? style.fill : style.color);
      found.push([big ? 3 : 4.5, ratio(over(colour, behind(one)), behind(one)), what]);
    }
    const thing = one.matches(".dot path, .bin") ? style.fill
      : one.matches(".bar, .shares i:not(.gone)") ? style.backgroundColor
      : one.matches("i.limit:not(.tick), i.zero") ? style.borderLeftColor : "";
    if (thing && !one.closest(".doubtful")) {
      const place = behind(one.parentElement), [r, g, b, a] = rgb(thing);
      found.push([3, ratio(over([r, g, b, (a ?? 1) * style.opacity], place), place), what]);
    }
  }
  return found;
}"""


def weak_contrasts(page: Any) -> list[Any]:
    """What WCAG AA would not let pass on an opened page; the page must have enough to look at."""
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    found = page.evaluate(_CONTRASTS)
    assert len(found) > 50
    return [one for one in found if one[1] < one[0]]
