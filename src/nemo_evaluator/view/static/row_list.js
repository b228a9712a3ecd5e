// The rows that fit a query, read in pages as they come into view.

import { count } from "./format.js";
import { html, useEffect, useRef, useState } from "./lib.js";
import { RowTable } from "./row_table.js";
import { rowsQuery } from "./rows_query.js";
import { source } from "./source.js";
import { Wait } from "./widgets.js";

const PAGE = 100;
// Pages that are read again when there are new rows, and how long to wait for more of them (ms).
const MOST_REFRESHED = 4;
const REFRESH_DELAY = 200;
const COMING = "coming";

/** The number of the page on which a row is. */
function pageOf(position) {
  return Math.floor(position / PAGE);
}

/**
 * Reads pages of rows and keeps them.
 * @returns {Object} `total` (null before the first page), `error`, `rowAt(position)`, `load(page)`
 *   and `forget()`, which drops all pages and returns their numbers.
 */
function usePages(address, query) {
  const pages = useRef({});
  const [total, setTotal] = useState(null);
  const [error, setError] = useState(null);
  const [, setLoaded] = useState(0);

  const load = async page => {
    const current = pages.current;
    if (current[page]) {
      return;
    }
    current[page] = COMING;
    try {
      const part = { offset: page * PAGE, limit: PAGE };
      const { rows, total: newTotal } = await source.rows(address, query, part);
      // Meanwhile another query may have been made.
      if (current === pages.current) {
        current[page] = rows;
        setTotal(newTotal);
        setError(null);
        setLoaded(number => number + 1);
      }
    } catch (problem) {
      if (current === pages.current) {
        delete current[page];
        setError(problem);
      }
    }
  };

  const forget = () => {
    const numbers = Object.keys(pages.current).map(Number);
    pages.current = {};
    return numbers;
  };

  const rowAt = position => {
    const page = pages.current[pageOf(position)];
    return Array.isArray(page) ? page[position % PAGE] : null;
  };

  return { total, error, rowAt, load, forget };
}

/** The table of the rows that fit; read again when `rowCount` changes. */
export function ListedRows({ address, query, columns, rowCount }) {
  const wanted = rowsQuery(query);
  const { total, error, rowAt, load, forget } = usePages(address, wanted);

  useEffect(() => {
    forget();
    load(pageOf(Number(query.at) || 0));
  }, [JSON.stringify([address, wanted])]);

  // What is shown stays until the new rows are there.
  const refresh = () => {
    const known = forget();
    const pages = known.length ? known : [0];
    for (const page of pages.slice(0, MOST_REFRESHED)) {
      load(page);
    }
  };
  useEffect(() => {
    if (!rowCount) {
      return undefined;
    }
    const timer = setTimeout(refresh, REFRESH_DELAY);
    return () => clearTimeout(timer);
  }, [rowCount]);

  const loadBetween = (first, last) => {
    for (let page = pageOf(first); page <= pageOf(last); page++) {
      load(page);
    }
  };
  if (total === null) {
    return html`<${Wait} error=${error} text="Reading rows …" />`;
  }
  return html`<p class="note counted" role="status">
      <b>${count(total)}</b> ${total === 1 ? "row" : "rows"}
    </p>
    ${error && html`<${Wait} error=${error} />`}
    <${RowTable}
      address=${address}
      query=${query}
      columnNames=${columns}
      total=${total}
      rowAt=${rowAt}
      onView=${loadBetween}
    />`;
}
