// Which rows of an export fit a query, and their order: what the server's index does for a run.

const WORDS = ["cause", "category", "finish_reason"];
const FLAGS = ["truncated", "unparsed", "refused", "tripped"];
const RANGES = ["reward", "tokens", "latency_ms"];
const METADATA = "meta.";

function fitsStatus(row, status) {
  return status === (row.cause ? "failed" : "scored");
}

function fitsLabel(row, label) {
  if (label === "none") {
    return !row.label;
  }
  return label === "any" ? Boolean(row.label) : row.label === label;
}

/** Whether a number lies within bounds, either of which may be missing; no number lies nowhere. */
function fitsRange(value, low, high) {
  if (!(low || high)) {
    return true;
  }
  if (value === null) {
    return false;
  }
  return !(low && value < Number(low)) && !(high && value > Number(high));
}

function fitsMetadata(row, parameter, text) {
  const value = row.metadata[parameter.slice(METADATA.length)];
  return String(value ?? "")
    .toLowerCase()
    .includes(text.toLowerCase());
}

/**
 * Whether a row fits all filters of a query.
 * @param {Object} row A line of the table.
 * @param {Object<string, string>} query The parameters of the page; an empty one does not filter.
 */
export function rowFits(row, query) {
  const metadata = Object.entries(query).filter(([name, text]) => {
    return name.startsWith(METADATA) && text;
  });
  const tests = [
    () => WORDS.every(name => !query[name] || row[name] === query[name]),
    () => FLAGS.every(name => !query[name] || row[name] === (query[name] === "1")),
    () => RANGES.every(name => fitsRange(row[name], query[`min_${name}`], query[`max_${name}`])),
    () => !query.status || fitsStatus(row, query.status),
    () => !query.problem_idx || row.problem_idx === Number(query.problem_idx),
    () => !query.label || fitsLabel(row, query.label),
    () => metadata.every(([name, text]) => fitsMetadata(row, name, text)),
  ];
  return tests.every(test => test());
}

const NATURAL_ORDER = "problem_idx";
// More repeats of a problem than this there are not.
const REPEATS = 1e6;

function sortKey(row, column) {
  if (column === NATURAL_ORDER) {
    return row.problem_idx * REPEATS + row.repeat;
  }
  const value = column === "cost" ? row.cost_usd : row[column];
  // Rows without a value come before those with the lowest one.
  return value ?? -Infinity;
}

/** Returns rows in an order: the name of a column, with "-" before it for the highest first. */
export function sortRows(rows, order) {
  const column = (order || NATURAL_ORDER).replace(/^-/, "");
  const direction = order?.startsWith("-") ? -1 : 1;
  if (column === NATURAL_ORDER && direction === 1) {
    return rows;
  }
  return [...rows].sort((first, second) => {
    return direction * (sortKey(first, column) - sortKey(second, column));
  });
}
