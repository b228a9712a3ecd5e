// The rows that have a text, as the search finds them.

import { count } from "./format.js";
import { html, useEffect, useRef, useState } from "./lib.js";
import { RowTable } from "./row_table.js";
import { rowsQuery } from "./rows_query.js";
import { source } from "./source.js";
import { Wait } from "./widgets.js";

// How often the page is drawn anew while rows come, in milliseconds.
const REDRAWN = 150;

/**
 * Searches from when the component appears until it goes or `stop` is called.
 * @returns {Object} `hits`, `error`, `stop`, and `progress`: `{searched, of, done, full, stopped}`.
 */
function useSearch(address, query) {
  const hits = useRef([]);
  const controller = useRef(null);
  const [progress, setProgress] = useState({ searched: 0, of: 0 });
  const [error, setError] = useState(null);
  const update = changes => {
    // The number of hits is there so that the page is drawn anew when it changes.
    setProgress(earlier => ({ ...earlier, ...changes, hits: hits.current.length }));
  };
  useEffect(() => {
    controller.current = new AbortController();
    const { signal } = controller.current;
    let nextUpdate = 0;
    const onMessage = message => {
      const isRow = message.problem_idx !== undefined;
      if (!isRow) {
        update(message);
        return;
      }
      hits.current.push(message);
      if (performance.now() > nextUpdate) {
        nextUpdate = performance.now() + REDRAWN;
        update({});
      }
    };
    source.search(address, rowsQuery(query), { onMessage, signal }).catch(problem => {
      if (problem.name !== "AbortError") {
        setError(problem);
      }
    });
    return () => controller.current.abort();
  }, []);
  const stop = () => {
    controller.current.abort();
    update({ stopped: true });
  };
  return { hits: hits.current, error, progress, stop };
}

/** How far the search is, with a button that ends it. */
function SearchProgress({ progress, onStop }) {
  const { searched, of: total } = progress;
  if (progress.full) {
    return " (the first ones; narrow the search)";
  }
  if (progress.stopped) {
    return " (stopped)";
  }
  if (progress.done) {
    return "";
  }
  const share = total ? `${Math.round((100 * searched) / total)}% searched` : "searching";
  return html` · ${share} <button onClick=${onStop}>Stop</button>`;
}

/** The table of the rows that were found. */
export function FoundRows({ address, query, columns }) {
  const { hits, error, progress, stop } = useSearch(address, query);
  const isOver = progress.done || progress.stopped || progress.full;
  const noun = hits.length === 1 ? "row" : "rows";
  const table = html`<${RowTable}
    address=${address}
    query=${query}
    columnNames=${columns}
    total=${hits.length}
    rowAt=${position => hits[position]}
    onView=${() => {}}
  />`;
  return html`<p class="note counted" role="status">
      <b>${count(hits.length)}</b> ${noun} found
      <${SearchProgress} progress=${progress} onStop=${stop} />
    </p>
    ${error && html`<${Wait} error=${error} />`}
    ${(hits.length > 0 || isOver) && table}`;
}
