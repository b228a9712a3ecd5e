// Which rows of an export fit a query, and their order: what the index does for a served run.
// What can be asked for stands in row_filters.json, which the server and the export hand to the
// page; here is what each kind of filter does.

const MINUS = "-";

/** A number in a query. Throws an Error for a text that is none. */
function numberOf(text) {
  const number = Number(text);
  if (Number.isNaN(number)) {
    throw new Error(`not a number: ${text}`);
  }
  return number;
}

function fitsStatus(row, { value }) {
  return value === (row.cause ? "failed" : "scored");
}

function fitsWord(row, { name, value }) {
  return row[name] === value;
}

function fitsFlag(row, { name, value }) {
  return row[name] === (value === "1");
}

function fitsLabel(row, { value }) {
  if (value === "none") {
    return !row.label;
  }
  if (value === "drawn") {
    return row.drawn;
  }
  return value === "any" ? Boolean(row.label) : row.label === value;
}

function fitsNumber(row, { name, value }) {
  return row[name] === numberOf(value);
}

/** Whether a number is known, and within bounds; either bound may be missing. */
function fitsRange(row, { name, low, high }) {
  const number = row[name];
  const isHighEnough = !low || number >= numberOf(low);
  const isLowEnough = !high || number <= numberOf(high);
  return number !== null && isHighEnough && isLowEnough;
}

/** Whether a row fits a condition, by the kind of its filter. */
const TESTS = {
  status: fitsStatus,
  word: fitsWord,
  flag: fitsFlag,
  label: fitsLabel,
  number: fitsNumber,
  range: fitsRange,
};

/**
 * What a query asks of a filter.
 * @returns {?Object} The condition: `name`, `kind`, and `value` or `low` and `high`; null without
 *   any. Throws an Error for a value that the filter does not know.
 */
function conditionOf({ name, kind, values }, query) {
  if (kind === "range") {
    const low = query[`min_${name}`];
    const high = query[`max_${name}`];
    return low || high ? { name, kind, low, high } : null;
  }
  const value = query[name];
  if (!value) {
    return null;
  }
  if (values && !values.includes(value)) {
    throw new Error(`${name} cannot be '${value}'; known: ${values.join(", ")}`);
  }
  return { name, kind, value };
}

/**
 * The rows that fit all filters of a query.
 * @param {Array<Object>} rows Lines of the table.
 * @param {Array<Object>} filters The filters of row_filters.json.
 * @param {Object<string, string>} query The parameters of the page; an empty one does not filter.
 */
export function filterRows(rows, filters, query) {
  const conditions = filters.map(filter => conditionOf(filter, query)).filter(Boolean);
  return rows.filter(row => conditions.every(condition => TESTS[condition.kind](row, condition)));
}

/** -1, 0 or 1: whether a value is below, equal to or above another one. */
function compareValues(first, second) {
  if (first === second) {
    return 0;
  }
  return first < second ? -1 : 1;
}

/** Compares rows by problem and repeat, of which there are no two alike. */
function compareNumbers(first, second) {
  return (
    compareValues(first.problem_idx, second.problem_idx) ||
    compareValues(first.repeat, second.repeat)
  );
}

/**
 * Returns rows in an order.
 * @param {Array<Object>} rows Lines of the table.
 * @param {Array<Object>} orders The orders of row_filters.json.
 * @param {string} [wanted] The name of an order, with "-" before it for the highest first.
 */
export function sortRows(rows, orders, wanted) {
  const isDescending = Boolean(wanted?.startsWith(MINUS));
  const name = isDescending ? wanted.slice(MINUS.length) : wanted || "problem_idx";
  const order = orders.find(candidate => candidate.name === name);
  if (!order) {
    throw new Error(`rows cannot be ordered by '${wanted}'`);
  }
  // Rows without a value come before those with the lowest one.
  const sortValue = row => row[order.field] ?? -Infinity;
  const sorted = [...rows].sort((first, second) => {
    return compareValues(sortValue(first), sortValue(second)) || compareNumbers(first, second);
  });
  return isDescending ? sorted.reverse() : sorted;
}
