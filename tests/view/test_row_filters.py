"""Filters of rows are defined once: the index, the server, an export and the page's boxes choose the same rows."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from browsing import until
from click.testing import CliRunner
from made_runs import records, write_run

from nemo_evaluator.cli.main import nel
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.labels import Label, append_label
from nemo_evaluator.runs.query import RowFilter
from nemo_evaluator.runs.row_filters import FILTERS, ORDERS, FilterDefinition
from nemo_evaluator.view.row_query import parse_row_query

# Bounds below, within and above the values of the rows.
_BOUNDS = {
    "reward": ("0", "0.5", "1"),
    "tokens": ("0", "45", "60"),
    "latency_ms": ("0", "250.5", "400"),
}
_WORDS = {
    "cause": ("transport", "timeout"),
    "category": ("algebra", "no such category"),
    "finish_reason": ("stop", "length", "no such reason"),
}
Row = tuple[int, int]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("filtered") / "runs"
    steps = [records(at) for at in range(60)]
    steps[3] = records(3, scoring_details={"method": "exact", "unparsed": True}, reward=0.25)
    steps[7] = records(7, scoring_details={"tripwires": {"read the tests": "cat tests"}})
    steps[9] = records(9, finish_reason="content_filter", response="")
    steps[11] = records(11, latency_ms=None, completion_tokens=None, prompt_tokens=None)
    steps += [records(5, 1, right=False), records(6, 1, right=True)]
    write_run(root / "base", steps=steps)
    folder = root / "base" / "sums"
    for problem, repeat, word in (
        (1, 0, "right"),
        (2, 0, "wrong"),
        (5, 1, "unsure"),
        (7, 0, "wrong"),
    ):
        append_label(folder, Label(problem, repeat, word, "", "ada"))  # type: ignore[arg-type]
    drawn = CliRunner().invoke(nel, ["judge", "sample", str(folder), "--labels", "12"])
    assert drawn.exit_code == 0, drawn.output
    return root / "base"


@pytest.fixture(scope="module")
def served(run: Path, serve: Callable[[Path], Any]) -> Any:
    return serve(run.parent)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing on the terminal."""


@pytest.fixture(scope="module")
def site(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same run, exported, behind a plain web server."""
    target = tmp_path_factory.mktemp("exported") / "site"
    done = CliRunner().invoke(nel, ["view", str(run.parent), "--export", str(target)])
    assert done.exit_code == 0, done.output
    handler = partial(_Quiet, directory=str(target))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def _values(definition: FilterDefinition) -> list[dict[str, str]]:
    """Queries for a filter: each value that it knows, or some that rows have and one that none has."""
    name = definition.name
    match definition.kind:
        case "range":
            low, middle, high = _BOUNDS[name]
            bounds: list[dict[str, str]] = [{f"min_{name}": value} for value in (low, middle, high)]
            bounds += [{f"max_{name}": value} for value in (low, middle, high)]
            return [*bounds, {f"min_{name}": low, f"max_{name}": middle}]
        case "word":
            return [{name: value} for value in _WORDS[name]]
        case "flag":
            return [{name: value} for value in ("1", "0")]
        case "number":
            return [{name: value} for value in ("0", "5", "1000")]
        case _:
            return [{name: value} for value in definition.values]


def _queries() -> list[dict[str, str]]:
    """Each filter by itself, each pair of neighbours together, and each order both ways."""
    single = [query for definition in FILTERS for query in _values(definition)]
    pairs = [first | second for first, second in zip(single, single[5:], strict=False)]
    orders = [{"sort": sign + name} for name in ORDERS for sign in ("", "-")]
    filtered_orders = [order | {"category": "algebra", "min_tokens": "0"} for order in orders]
    return [{}, *single, *pairs, *orders, *filtered_orders]


def _keys(rows: list[dict[str, Any]]) -> list[Row]:
    return [(row["problem_idx"], row["repeat"]) for row in rows]


def test_the_fields_of_the_index_filter_are_the_filters_of_the_table() -> None:
    names = {definition.name: definition.kind for definition in FILTERS}
    fields = {name for name, kind in names.items() if kind not in ("range", "label")}
    fields |= {
        f"{end}_{name}" for name, kind in names.items() if kind == "range" for end in ("min", "max")
    }
    # Labels lie beside the index: the viewer turns them into rows by name.
    fields |= {"among", "beyond"}
    assert set(RowFilter.__slots__) == fields


@pytest.mark.parametrize("query", [{"status": "lost"}, {"label": "maybe"}, {"min_reward": "much"}])
def test_a_value_that_a_filter_does_not_know_is_refused(run: Path, query: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"cannot be|not a number"):
        parse_row_query(query, BenchmarkFolder(run / "sums"))


@pytest.mark.needs("chromium")
def test_the_server_and_an_export_choose_the_same_rows_in_the_same_order(
    served: Any, site: str, page: Any
) -> None:
    key = served.key("base")
    queries = _queries()
    page.goto(f"{site}#/rows/{key}/sums")
    page.wait_for_selector(".grid-row .chip")
    ask = """
    async ([run, queries]) => {
      const { source } = await import(new URL("source.js", location.href));
      const part = { offset: 0, limit: 1000 };
      const found = [];
      for (const query of queries) {
        found.push(await source.rows({ run, bench: "sums" }, query, part));
      }
      return found;
    }
    """
    exported = page.evaluate(ask, [key, queries])
    differing = []
    chosen: set[tuple[Row, ...]] = set()
    for query, found in zip(queries, exported, strict=True):
        expected = served.api("rows", run=key, bench="sums", limit=500, **query)
        chosen.add(tuple(_keys(expected["rows"])))
        if (found["total"], _keys(found["rows"])) != (expected["total"], _keys(expected["rows"])):
            differing.append((query, expected["total"], found["total"]))
    assert differing == []
    assert len(chosen) > 40, "the rows are such that filters choose differently"


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("place", ["server", "export"])
def test_the_boxes_of_the_page_are_those_filters(
    served: Any, site: str, page: Any, place: str
) -> None:
    key = served.key("base")
    root = served.url if place == "server" else site
    titled = [definition for definition in FILTERS if definition.title]
    page.goto(f"{root}#/rows/{key}/sums")
    page.wait_for_selector(".grid-row .chip")
    labels = "[...document.querySelectorAll('.filter-grid label')].map(box => box.firstChild.data.trim())"
    titles = [definition.title for definition in titled]
    assert page.evaluate(labels) == [
        *titles,
        *served.api("facets", run=key, bench="sums")["metadata"],
    ]
    for definition in titled:
        query = _values(definition)[0]
        (value,) = query.values()
        expected = served.api("rows", run=key, bench="sums", **query)["total"]
        if definition.kind == "range":
            box = page.get_by_label(f"{definition.title} at least")
            box.fill(value)
            box.press("Enter")
        else:
            box = page.get_by_label(definition.title, exact=True)
            box.select_option(value)
        noun = "row" if expected == 1 else "rows"
        until(
            page,
            f"document.querySelector('.counted')?.innerText === {json.dumps(f'{expected} {noun}')}",
            10,
        )
        page.get_by_role("button", name="Clear 1 filter").click()
        until(page, "document.querySelector('.counted')?.innerText === '62 rows'", 10)


@pytest.mark.needs("chromium")
def test_an_export_searches_metadata_by_itself(served: Any, site: str, page: Any) -> None:
    key = served.key("base")
    for root in (served.url, site):
        page.goto(f"{root}#/rows/{key}/sums?meta.level=3")
        until(page, "document.querySelector('.counted')?.innerText === '12 rows found'", 10)
