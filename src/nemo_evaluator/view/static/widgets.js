// Small components that several pages use.
import { visible } from "./format.js";
import { html } from "./lib.js";

/** A small label; `kind` becomes its class, and so its colour. */
export function Chip({ kind, children }) {
  const className = String(kind || "")
    .toLowerCase()
    .replaceAll(" ", "-");
  return html`<span class=${`chip ${className}`}>${children}</span>`;
}

/** Takes the place of data that is not there yet, or of data that could not be had. */
export function Wait({ error, text = "Loading …" }) {
  if (!error) {
    return html`<p class="wait" role="status">${text}</p>`;
  }
  const hint = error.hint ? html` <small>${visible(error.hint)}</small>` : "";
  return html`<p class="alarm box" role="alert">${visible(error.message)}${hint}</p>`;
}

/** What became of a row, in one word that is also a kind of chip. */
export function verdictOf(row) {
  if (row.cause) {
    return "failed";
  }
  if (row.reward === null) {
    return "unscored";
  }
  if (row.reward >= 1) {
    return "right";
  }
  if (row.unparsed) {
    return "unparsed";
  }
  if (row.truncated) {
    return "truncated";
  }
  return row.reward > 0 ? "partly" : "wrong";
}

/** The chip of a row: the cause of its failure, or its verdict. */
export function Verdict({ row }) {
  const verdict = verdictOf(row);
  return html`<${Chip} kind=${verdict}>${row.cause || verdict}<//>`;
}

/** The chip of a comparison: PASS, WARN, BLOCK or INCONCLUSIVE. */
export function ComparisonVerdict({ verdict, className = "" }) {
  return html`<span class=${`${className}verdict ${verdict}`}>${verdict}</span>`;
}

/**
 * The head of a table.
 * @param {{columns: Array<[string, string?]>}} props Each column's title and class.
 */
export function TableHead({ columns }) {
  const cells = columns.map(([title, className]) => {
    return html`<th scope="col" class=${className}>${title}</th>`;
  });
  return html`<thead><tr>${cells}</tr></thead>`;
}
