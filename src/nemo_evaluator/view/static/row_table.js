// A table of any number of rows: only those in the window are on the page.
import { useKeys } from "./effects.js";
import { html, useEffect, useRef, useState } from "./lib.js";
import { go, link, replace } from "./route.js";
import { gridStyle, tableColumns } from "./row_columns.js";

const ROW_HEIGHT = 34;
// What is above and below the table, in pixels.
const AROUND = 330;
const FEWEST_VISIBLE = 8;
// Browsers draw nothing that is much taller than this.
const TALLEST = 8_000_000;
const ARROWS = { ascending: " ▲", descending: " ▼", none: "" };

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

/**
 * The window on the rows. The scroll bar stands for shares where there are too many rows for a
 * page.
 * @param {number} total The number of rows.
 * @param {number} start The row to begin with.
 * @returns {Object} `first` and `last`, the rows in view; `room`, how many fit; `height` of all
 *   rows in pixels; `frame`, a ref for the element that scrolls; `onScroll`; `show(position)`,
 *   which moves the window so that a row is in it.
 */
function useWindow(total, start) {
  const frame = useRef();
  const isOwnScroll = useRef(false);
  const room = Math.max(FEWEST_VISIBLE, Math.floor((innerHeight - AROUND) / ROW_HEIGHT));
  const lastTop = Math.max(0, total - room);
  const height = Math.min(TALLEST, total * ROW_HEIGHT);
  const scrollable = height - room * ROW_HEIGHT;
  const rowsPerPixel = scrollable > 0 ? lastTop / scrollable : 0;
  const [top, setTop] = useState(Math.min(lastTop, start));
  const first = Math.min(top, lastTop);
  const last = Math.min(total - 1, first + room);

  useEffect(() => {
    if (frame.current && rowsPerPixel) {
      frame.current.scrollTop = top / rowsPerPixel;
    }
  }, [total]);

  const onScroll = event => {
    if (isOwnScroll.current) {
      isOwnScroll.current = false;
    } else {
      setTop(Math.round(event.target.scrollTop * rowsPerPixel));
    }
  };

  const show = position => {
    const isAbove = position < first;
    const isBelow = position >= first + room - 1;
    if (!isAbove && !isBelow) {
      return;
    }
    const wantedTop = isAbove ? position : position - room + 2;
    const newTop = clamp(wantedTop, 0, lastTop);
    setTop(newTop);
    isOwnScroll.current = true;
    if (rowsPerPixel) {
      frame.current.scrollTop = newTop / rowsPerPixel;
    }
  };

  return { first, last, room, height, frame, onScroll, show };
}

/** The whole numbers from `first` to `last`. */
function numbersBetween(first, last) {
  const length = Math.max(0, last - first + 1);
  return Array.from({ length }, (_, offset) => first + offset);
}

/** The words of a row's page. */
function rowPath({ run, bench }, row) {
  return ["row", run, bench, row.problem_idx, row.repeat];
}

/**
 * The table, with keys that walk through it.
 * @param {Object} props `rowAt(position)` returns a row, or null while it has not come;
 *   `onView(first, last)` is told which rows are in view.
 */
export function RowTable({ address, query, columnNames, total, rowAt, onView }) {
  const { run, bench } = address;
  const start = Number(query.at) || 0;
  const view = useWindow(total, start);
  const [chosen, setChosen] = useState(start);
  const columns = tableColumns(columnNames);

  useEffect(
    () => onView(view.first, Math.max(view.first, view.last)),
    [view.first, view.last, total],
  );

  const choose = wanted => {
    const position = clamp(wanted, 0, Math.max(0, total - 1));
    setChosen(position);
    // Not through the router: the page stays as it is.
    history.replaceState(null, "", link(["rows", run, bench], { ...query, at: position }));
    view.show(position);
  };
  const open = position => {
    const row = rowAt(position);
    if (row) {
      go(rowPath(address, row), { ...query, at: position });
    }
  };
  const openChosen = event => {
    // Enter on a link or a button is the browser's.
    if (event.target.closest("a, button")) {
      return false;
    }
    return open(chosen);
  };
  useKeys({
    j: () => choose(chosen + 1),
    ArrowDown: () => choose(chosen + 1),
    k: () => choose(chosen - 1),
    ArrowUp: () => choose(chosen - 1),
    PageDown: () => choose(chosen + view.room),
    PageUp: () => choose(chosen - view.room),
    Home: () => choose(0),
    End: () => choose(total - 1),
    Enter: openChosen,
  });
  useEffect(() => {
    if (query.review) {
      open(0);
    }
  }, [query.review]);

  if (!total) {
    return html`<p class="wait">No row fits.</p>`;
  }
  const rows = numbersBetween(view.first, view.last).map(position => {
    return html`<${TableRow}
      key=${position}
      address=${address}
      query=${query}
      columns=${columns}
      position=${position}
      row=${rowAt(position)}
      isChosen=${position === chosen}
    />`;
  });
  return html`<div
    class="grid"
    role="grid"
    aria-label="Rows"
    aria-rowcount=${total}
    aria-colcount=${columns.length}
  >
    <${TableHeader} address=${address} query=${query} columns=${columns} />
    <div
      class="grid-body"
      ref=${view.frame}
      onScroll=${view.onScroll}
      style=${{ height: `${Math.min(view.room, total) * ROW_HEIGHT}px` }}
      tabindex="0"
      aria-label="Rows, scroll for more"
    >
      <div style=${{ height: `${view.height}px`, position: "relative" }}>
        <div class="window">${rows}</div>
      </div>
    </div>
  </div>`;
}

/** How rows are ordered by a column, in the words of aria-sort. */
function orderOf(column, sort) {
  if (!column.order) {
    return "none";
  }
  if (sort === column.order) {
    return "ascending";
  }
  return sort === `-${column.order}` ? "descending" : "none";
}

/** The titles; a click puts rows in the order of a column, turns it round, and takes it away. */
function TableHeader({ address, query, columns }) {
  const cells = columns.map(column => {
    const order = orderOf(column, query.sort);
    const nextSort = { none: column.order, ascending: `-${column.order}`, descending: "" };
    const sort = () => {
      const changes = { at: "", sort: nextSort[order] };
      replace(["rows", address.run, address.bench], { ...query, ...changes });
    };
    const title = column.order
      ? html`<button class="quiet" onClick=${sort}>${column.title}${ARROWS[order]}</button>`
      : column.title;
    return html`<span role="columnheader" aria-sort=${order}>${title}</span>`;
  });
  return html`<div class="grid-head" role="row" style=${gridStyle(columns)}>${cells}</div>`;
}

/** A line of the table: a link to the row's page, or a placeholder until the row has come. */
function TableRow({ address, query, columns, position, row, isChosen }) {
  const [number, ...others] = columns;
  const href = row ? link(rowPath(address, row), { ...query, at: position }) : undefined;
  const cells = others.map(column => {
    return html`<span role="gridcell" dir="auto">${row ? column.cell(row) : ""}</span>`;
  });
  return html`<a
    role="row"
    aria-rowindex=${position + 1}
    class=${isChosen ? "grid-row chosen" : "grid-row"}
    style=${gridStyle(columns)}
    href=${href}
  ><span role="gridcell" class="number">${row ? number.cell(row) : "…"}</span>${cells}</a>`;
}
