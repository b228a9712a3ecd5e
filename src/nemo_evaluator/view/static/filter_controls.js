// The boxes above the table of rows: filters, and which columns are shown.
import { count, visible } from "./format.js";
import { html } from "./lib.js";
import { columnNames, columnOf } from "./row_columns.js";
import { METADATA } from "./rows_query.js";
import { source } from "./source.js";

// On a narrow screen, filters are closed at first.
const NARROW = 700;
// Fields of metadata that have a box.
const MOST_FIELDS = 12;
const YES_OR_NO = [
  ["1", "yes"],
  ["0", "no"],
];
/** Values as options, each its own title. */
function namedOptions(values) {
  return values.map(value => [value, value]);
}

/** The values of a column as options, with the number of rows of each. */
function countedOptions(values) {
  return (values || []).map(([value, rows]) => [value, `${visible(value)} (${count(rows)})`]);
}

/** A list of which one value, or all, can be chosen. */
function Choice({ title, options, value, onChange }) {
  const items = options.map(([option, text]) => html`<option value=${option}>${text}</option>`);
  return html`<label>${title}
    <select
      aria-label=${title}
      value=${value || ""}
      onChange=${event => onChange(event.target.value)}
    ><option value="">all</option>${items}</select>
  </label>`;
}

/** Two boxes, for the lowest and the highest value. */
function Range({ title, low, high, onLow, onHigh }) {
  return html`<label>${title}
    <span class="range">
      <input
        type="number"
        step="any"
        aria-label=${`${title} at least`}
        placeholder="min"
        value=${low || ""}
        onChange=${event => onLow(event.target.value)}
      />
      <input
        type="number"
        step="any"
        aria-label=${`${title} at most`}
        placeholder="max"
        value=${high || ""}
        onChange=${event => onHigh(event.target.value)}
      />
    </span>
  </label>`;
}

/** A box for a text that a field of metadata is to contain. */
function MetadataBox({ field, value, onChange }) {
  return html`<label>${visible(field)}
    <input
      type="text"
      placeholder="contains"
      value=${value || ""}
      onChange=${event => onChange(event.target.value)}
    />
  </label>`;
}

/** The values that can be chosen for a filter. */
function optionsOf(filter, facets) {
  if (filter.kind === "flag") {
    return YES_OR_NO;
  }
  return filter.values ? namedOptions(filter.values) : countedOptions(facets?.[filter.name]);
}

/**
 * The box of a filter.
 * @param {Object} props `filter` is one of row_filters.json; the others are those of `Filters`.
 */
function FilterBox({ filter, query, facets, setParameter }) {
  const { name, title } = filter;
  if (filter.kind === "range") {
    return html`<${Range}
      title=${title}
      low=${query[`min_${name}`]}
      high=${query[`max_${name}`]}
      onLow=${value => setParameter(`min_${name}`, value)}
      onHigh=${value => setParameter(`max_${name}`, value)}
    />`;
  }
  return html`<${Choice}
    title=${title}
    options=${optionsOf(filter, facets)}
    value=${query[name]}
    onChange=${value => setParameter(name, value)}
  />`;
}

/**
 * All filters that have a title, then boxes for metadata.
 * @param {Object} props `query` has what is chosen; `facets` the values that there are, once they
 *   are known; `setParameter(name, value)` chooses.
 */
export function Filters({ query, facets, setParameter }) {
  const boxes = source.filters
    .filter(({ title }) => title)
    .map(filter => {
      const props = { filter, query, facets, setParameter };
      return html`<${FilterBox} key=${filter.name} ...${props} />`;
    });
  const metadataBoxes = (facets?.metadata || []).slice(0, MOST_FIELDS).map(field => {
    const name = METADATA + field;
    return html`<${MetadataBox}
      field=${field}
      value=${query[name]}
      onChange=${value => setParameter(name, value)}
    />`;
  });
  return html`<details class="filters" open=${innerWidth > NARROW}>
    <summary>Filters</summary>
    <div class="filter-grid">${boxes}${metadataBoxes}</div>
  </details>`;
}

/** A box for each column; `onChoose` gets the names of those that are shown. */
export function ColumnChoice({ chosen, metadataNames, onChoose }) {
  const toggle = name => {
    const others = chosen.filter(chosenName => chosenName !== name);
    onChoose(others.length < chosen.length ? others : [...chosen, name]);
  };
  const names = [...columnNames, ...metadataNames.map(field => METADATA + field)];
  const boxes = names.map(name => {
    const isShown = chosen.includes(name);
    return html`<label>
      <input type="checkbox" checked=${isShown} onChange=${() => toggle(name)} />
      ${columnOf(name).title}
    </label>`;
  });
  return html`<fieldset class="columns"><legend>Columns</legend>${boxes}</fieldset>`;
}
