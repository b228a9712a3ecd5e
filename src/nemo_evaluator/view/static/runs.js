// All runs; those that are running change by themselves.
import { useData, useKeys } from "./effects.js";
import {
  age,
  asText,
  bounds,
  count,
  further,
  money,
  pathEnd,
  percent,
  plain,
  visible,
} from "./format.js";
import { html, useEffect, useRef, useState } from "./lib.js";
import { go, link, replace } from "./route.js";
import { source } from "./source.js";
import { Chip, TableHead, Wait } from "./widgets.js";

const COLUMNS = [
  [html`<span class="unseen">Pick</span>`],
  ["Model"],
  ["Benchmark"],
  ["Score", "r"],
  ["95% interval", "r"],
  ["Status"],
  ["Coverage", "r"],
  ["Cost", "r"],
  ["Age", "r"],
];
// The line of a run that has no benchmark yet.
const NOTHING_YET = { name: "(nothing yet)", status: "" };

/** The runs of a listing in their newest state, those that began since then first. */
function newest(listed, changed) {
  const updated = listed.map(run => changed[run.key] || run);
  const listedKeys = new Set(listed.map(run => run.key));
  const added = Object.values(changed).filter(run => !listedKeys.has(run.key));
  return [...added, ...updated];
}

/** The text of a run in which the search looks. */
function searchText(run) {
  const benchmarks = run.benchmarks.map(benchmark => [benchmark.name, benchmark.status]);
  return asText([run.model, run.path, run.run_id, run.state, benchmarks]).toLowerCase();
}

/** The runs that have every word of a search. */
function matching(runs, search) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return runs.filter(run => words.every(word => searchText(run).includes(word)));
}

/** The page of all runs: search them, pick some to compare. */
export function Runs({ query }) {
  const [listing, error] = useData(signal => source.runs(signal), []);
  const [changed, setChanged] = useState({});
  const [picked, setPicked] = useState([]);
  const searchBox = useRef();
  useEffect(() => {
    return source.watch([], run => setChanged(earlier => ({ ...earlier, [run.key]: run })));
  }, []);
  useKeys({ "/": () => searchBox.current.focus() });
  if (!listing) {
    return html`<${Wait} error=${error} />`;
  }
  const runs = newest(listing.runs, changed);
  const shown = matching(runs, query.q || "");
  const togglePick = key => {
    const others = picked.filter(pickedKey => pickedKey !== key);
    setPicked(others.length < picked.length ? others : [...picked, key]);
  };
  const compareButton = html`<button
    class="main"
    disabled=${picked.length < 2}
    onClick=${() => go(["compare", picked.join(",")])}
  >Compare ${picked.length || ""}</button>`;
  const bodies = shown.map(run => {
    const isPicked = picked.includes(run.key);
    return html`<${RunLines}
      key=${run.key}
      run=${run}
      isPicked=${isPicked}
      onPick=${togglePick}
    />`;
  });
  return html`<h1>Runs</h1>
    <div class="controls">
      <input
        ref=${searchBox}
        type="search"
        placeholder="Search model, benchmark, folder, status"
        aria-label="Search runs"
        value=${query.q || ""}
        onInput=${event => replace([], { q: event.target.value })}
      />
      <span class="note" role="status">${count(shown.length)} of ${count(runs.length)} runs</span>
      ${source.canCompare && compareButton}
    </div>
    ${
      picked.length === 1 &&
      html`<p class="note">
      The first one picked is the baseline; pick one or more candidates.
    </p>`
    }
    <section class="list" aria-label="Runs">
      <table class="scores runs"><${TableHead} columns=${COLUMNS} />${bodies}</table>
      ${!shown.length && html`<p class="wait">No run fits.</p>`}
    </section>`;
}

/** The lines of a run, one for each benchmark; the first one also tells about the run. */
function RunLines({ run, isPicked, onPick }) {
  const benchmarks = run.benchmarks.length ? run.benchmarks : [NOTHING_YET];
  const pick = html`<input
    type="checkbox"
    aria-label=${`Pick ${run.path}`}
    checked=${isPicked}
    onChange=${() => onPick(run.key)}
  />`;
  const name = html`<a href=${link(["run", run.key])}>
      <bdi>${visible(run.model) || "unnamed"}</bdi>
    </a><small class="where"><bdi>${visible(pathEnd(run.path))}</bdi></small>`;
  const lines = benchmarks.map((benchmark, position) => {
    const isFirst = position === 0;
    return html`<tr>
      <td>${isFirst && source.canCompare && pick}</td>
      <td class="name">${isFirst && name}</td>
      <${BenchmarkCells} run=${run} benchmark=${benchmark} />
      <td class="r" data-label="Age">${isFirst ? age(run.age_seconds) : ""}</td>
    </tr>`;
  });
  return html`<tbody data-run=${run.key}>${lines}</tbody>`;
}

/** What a benchmark's chip says: while its run goes on, that it is running. */
function statusText(run, benchmark) {
  const isUnderWay = run.state === "running" && benchmark.scored !== undefined;
  return isUnderWay && !benchmark.finished ? "running" : benchmark.status;
}

/** The cells of a line that tell about a benchmark. */
function BenchmarkCells({ run, benchmark }) {
  const name = visible(benchmark.name);
  const hasRows = benchmark.scored !== undefined;
  const rowsLink = html`<a href=${link(["rows", run.key, benchmark.name])}><bdi>${name}</bdi></a>`;
  const chipKind = benchmark.status.startsWith("unreadable") ? "invalid" : benchmark.status;
  return html`
    <td data-label="Benchmark">${hasRows ? rowsLink : name}</td>
    <td class="r big" data-label="Score"><${Score} benchmark=${benchmark} /></td>
    <td class="r" data-label="95% interval">${bounds(benchmark.lower, benchmark.upper)}</td>
    <td data-label="Status">
      <${Chip} kind=${chipKind}>${visible(statusText(run, benchmark))}<//>
    </td>
    <td class="r" data-label="Coverage"><${Coverage} benchmark=${benchmark} /></td>
    <td class="r" data-label="Cost">${money(benchmark.cost_usd)}</td>`;
}

/** The headline score, with the one that labels have corrected. */
function Score({ benchmark }) {
  const { metric, corrected } = benchmark;
  const metricName = metric ? ` ${visible(metric)}` : "";
  const correction = corrected && `${plain(corrected.value)} ${visible(corrected.name)}`;
  const score = plain(benchmark.score);
  return html`<span>${score}<small>${metricName}${further(correction)}</small></span>`;
}

/** The share of rows that have a score, or how far the benchmark is. */
function Coverage({ benchmark }) {
  const { name, planned, scored, failed } = benchmark;
  if (benchmark.finished || !planned) {
    return percent(benchmark.coverage);
  }
  const done = scored + failed;
  return html`
    <progress max=${planned} value=${done} aria-label=${`${name}: progress`} />
    ${` ${count(done)}/${count(planned)}`}`;
}
