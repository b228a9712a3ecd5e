// The page of a benchmark's rows: filters, order, columns and place live in the URL.
import { useData, useKeys } from "./effects.js";
import { ColumnChoice, Filters } from "./filter_controls.js";
import { count, visible } from "./format.js";
import { html, useEffect, useRef, useState } from "./lib.js";
import { replace } from "./route.js";
import { knownColumns } from "./row_columns.js";
import { ListedRows } from "./row_list.js";
import { FoundRows } from "./row_search.js";
import { filterNames, needsSearch, rowsQuery } from "./rows_query.js";
import { source } from "./source.js";

const PLACES = [
  ["any", "prompt or answer"],
  ["prompt", "prompt"],
  ["answer", "answer"],
];

/** A number that grows while the benchmark gets rows: how many it has. */
function useNewRows(run, bench) {
  const [rowCount, setRowCount] = useState(0);
  useEffect(() => {
    const onRun = changed => {
      const line = changed.benchmarks.find(benchmark => benchmark.name === bench);
      if (line && !line.finished) {
        setRowCount((line.scored ?? 0) + (line.failed ?? 0));
      }
    };
    return source.watch([run], onRun);
  }, [run, bench]);
  return rowCount;
}

/** The page. */
export function Rows({ words: [, run, bench], query }) {
  const address = { run, bench };
  const [facets] = useData(signal => source.data("facets", address, signal), [run, bench]);
  const rowCount = useNewRows(run, bench);
  const [showsChoice, setShowsChoice] = useState(false);
  const columns = knownColumns(query.cols);
  const metadataNames = facets?.metadata || [];
  const setParameter = (name, value) => {
    replace(["rows", run, bench], { ...query, at: "", [name]: value });
  };
  // A search starts anew with each query, hence the key.
  const searchKey = JSON.stringify(rowsQuery(query));
  const rowsProps = { address, query, columns };
  const rows = needsSearch(query)
    ? html`<${FoundRows} key=${searchKey} ...${rowsProps} />`
    : html`<${ListedRows} rowCount=${rowCount} ...${rowsProps} />`;
  const choice = html`<${ColumnChoice}
    chosen=${columns}
    metadataNames=${metadataNames}
    onChoose=${names => setParameter("cols", names.join(","))}
  />`;
  return html`<h1><bdi>${visible(bench)}</bdi> <small>rows</small></h1>
    <div class="controls">
      <${SearchControls} query=${query} setParameter=${setParameter} />
      <button aria-expanded=${showsChoice} onClick=${() => setShowsChoice(!showsChoice)}>
        Columns
      </button>
      <${Downloads} address=${address} query=${query} />
      <${ClearButton} address=${address} query=${query} />
    </div>
    ${showsChoice && choice}
    <${Filters} query=${query} facets=${facets} setParameter=${setParameter} />
    ${rows}`;
}

/** The box for a text, and where it is looked for. */
function SearchControls({ query, setParameter }) {
  const box = useRef();
  useKeys({ "/": () => box.current.focus() });
  const places = PLACES.map(([place, title]) => html`<option value=${place}>${title}</option>`);
  return html`
    <input
      ref=${box}
      type="search"
      class="text"
      placeholder="Search in prompts and answers"
      aria-label="Search in prompts and answers"
      value=${query.text || ""}
      onChange=${event => setParameter("text", event.target.value)}
    />
    <select
      aria-label="Where to search"
      value=${query.in || "any"}
      onChange=${event => setParameter("in", event.target.value)}
    >${places}</select>`;
}

/** Links to the rows of this query as files; an export has none. */
function Downloads({ address, query }) {
  if (source.isExport) {
    return null;
  }
  return ["jsonl", "csv"].map(format => {
    const url = source.downloadUrl(address, rowsQuery(query), format);
    return html`<a class="button" href=${url} download>${format}</a>`;
  });
}

/** Takes all filters away; columns and order stay. */
function ClearButton({ address, query }) {
  const { length } = filterNames(query);
  if (!length) {
    return null;
  }
  const clear = () => {
    replace(["rows", address.run, address.bench], { cols: query.cols, sort: query.sort });
  };
  const noun = length > 1 ? "filters" : "filter";
  return html`<button onClick=${clear}>Clear ${count(length)} ${noun}</button>`;
}
