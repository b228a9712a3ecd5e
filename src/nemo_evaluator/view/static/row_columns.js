// The columns of the table of rows: titles, contents, widths.
import { count, duration, money, plain, visible } from "./format.js";
import { html } from "./lib.js";
import { METADATA, metadataField } from "./rows_query.js";
import { Chip, Verdict } from "./widgets.js";

const DEFAULT = ["verdict", "category", "prompt", "answer", "expected", "tokens", "latency_ms"];
const WIDTH = "minmax(80px,1fr)";
const WIDE = "minmax(150px,2fr)";
const NUMBER = {
  title: "#",
  cell: row => row.problem_idx + (row.repeat ? `·${row.repeat}` : ""),
  order: "problem_idx",
  width: "76px",
};

function labelChip({ label }) {
  return label && html`<${Chip} kind=${label}>${label}<//>`;
}

/**
 * Each column by its name in the URL: `cell` makes the content from a row, `order` is the word by
 * which rows are put in its order, if they can be.
 */
const COLUMNS = {
  verdict: { title: "Verdict", cell: row => html`<${Verdict} row=${row} />`, width: "112px" },
  reward: { title: "Reward", cell: row => plain(row.reward), order: "reward", width: "76px" },
  category: { title: "Category", cell: row => visible(row.category) },
  prompt: { title: "Prompt", cell: row => visible(row.prompt), width: WIDE },
  answer: { title: "Answer", cell: row => visible(row.answer), width: WIDE },
  extracted: { title: "Extracted", cell: row => visible(row.extracted) },
  expected: { title: "Expected", cell: row => visible(row.expected) },
  finish_reason: { title: "Finish", cell: row => visible(row.finish_reason) },
  tokens: { title: "Tokens", cell: row => count(row.tokens), order: "tokens", width: "76px" },
  latency_ms: {
    title: "Latency",
    cell: row => duration(row.latency_ms),
    order: "latency_ms",
    width: "84px",
  },
  cost: { title: "Cost", cell: row => money(row.cost_usd), order: "cost", width: "76px" },
  label: { title: "Label", cell: labelChip, width: "86px" },
};

/** The names of the columns that there are. */
export const columnNames = Object.keys(COLUMNS);

/**
 * The columns that a parameter of the URL names, without unknown ones; those shown at first without
 * it.
 */
export function knownColumns(parameter) {
  const names = parameter ? parameter.split(",") : DEFAULT;
  return names.filter(name => COLUMNS[name] || name.startsWith(METADATA));
}

/** A column by its name; a field of metadata is one too. */
export function columnOf(name) {
  if (COLUMNS[name]) {
    return COLUMNS[name];
  }
  const field = metadataField(name);
  return { title: visible(field), cell: row => visible(row.metadata?.[field]) };
}

/** All columns of the table, the row's number before the chosen ones. */
export function tableColumns(names) {
  return [NUMBER, ...names.map(columnOf)];
}

/** The style that gives columns their widths. */
export function gridStyle(columns) {
  const widths = columns.map(column => column.width || WIDTH);
  return { gridTemplateColumns: widths.join(" ") };
}
