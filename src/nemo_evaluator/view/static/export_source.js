// Data from files that `nel view --export` wrote; source.js describes the methods.
//
// A folder has one table of rows per benchmark, which is filtered here, and the rows themselves in
// chunks. A single html file has everything in it, under `whole`.
import { asText } from "./format.js";
import { filterRows, sortRows } from "./row_filters.js";
import { METADATA, metadataField } from "./rows_query.js";

const PARTIAL_CONTENT = 206;

/** The name of a run, or of one of its benchmarks, among the exported data. */
function nameOf({ run, bench }) {
  return bench === undefined ? run : `${run}/${bench}`;
}

async function fetchJson(path, signal) {
  const reply = await fetch(path, { signal });
  return reply.json();
}

/** A reader of tables, which fetches each one once. */
function tableReader(data) {
  const tables = {};
  const read = name => {
    const place = data.places[name];
    if (data.whole) {
      return Promise.resolve(data.whole[place].map(row => row.line));
    }
    return fetchJson(`data/${place}/index.json`);
  };
  return address => {
    const name = nameOf(address);
    tables[name] ||= read(name);
    return tables[name];
  };
}

/** Fetches the page of a row by the `at` of its line in the table. */
async function readPage(data, place, at) {
  if (data.whole) {
    const [number] = at;
    return data.whole[place][number].page;
  }
  const [chunk, start, length] = at;
  const end = start + length;
  const range = { Range: `bytes=${start}-${end - 1}` };
  const reply = await fetch(`data/${place}/rows-${chunk}.jsonl`, { headers: range });
  const bytes = new Uint8Array(await reply.arrayBuffer());
  // A server that knows no ranges sends the whole chunk.
  const page = reply.status === PARTIAL_CONTENT ? bytes : bytes.subarray(start, end);
  return JSON.parse(new TextDecoder().decode(page));
}

async function readComparison(data, keys, signal) {
  const pair = keys.join(",");
  if (!data.compared.includes(pair)) {
    throw new Error("an export compares two runs at a time, of at most six");
  }
  const name = `compare-${pair}`;
  const comparison = data.whole ? data.whole[name] : await fetchJson(`data/${name}.json`, signal);
  if (comparison.error) {
    throw Object.assign(new Error(comparison.error), { hint: comparison.hint });
  }
  return comparison;
}

/** The texts of a row in which a search looks. */
function searchedTexts(row, place) {
  if (place === "prompt") {
    return [row.prompt];
  }
  if (place === "answer") {
    return [row.model_response];
  }
  return [row.prompt, row.model_response];
}

/** Whether a text has another one in it, in capitals or not; a missing text has nothing. */
function contains(text, part) {
  return String(text ?? "")
    .toLowerCase()
    .includes(part.toLowerCase());
}

/** Whether a row has the text of a query, in the place that it names, and the metadata. */
function fitsSearch(row, query) {
  const texts = searchedTexts(row, query.in);
  const hasText = !query.text || texts.some(text => contains(text, query.text));
  const fields = Object.keys(query).filter(name => name.startsWith(METADATA) && query[name]);
  const hasMetadata = fields.every(name => {
    const value = row.metadata?.[metadataField(name)] ?? "";
    return contains(asText(value), query[name]);
  });
  return hasText && hasMetadata;
}

/**
 * Makes the source of an export.
 * @param {Object} data What the export wrote; `view/export_data.py` describes it.
 */
export function exportSource(data) {
  const readTable = tableReader(data);

  const chosenRows = async (address, query) => {
    const table = await readTable(address);
    const fitting = filterRows(table, data.filters.filters, query);
    return sortRows(fitting, data.filters.orders, query.sort);
  };

  const rows = async (address, query, { offset, limit }) => {
    const chosen = await chosenRows(address, query);
    return { total: chosen.length, rows: chosen.slice(offset, offset + limit) };
  };

  const row = async address => {
    const { problem, repeat } = address;
    const table = await readTable(address);
    const line = table.find(entry => entry.problem_idx === problem && entry.repeat === repeat);
    if (!line) {
      throw new Error(`there is no row of problem ${problem}, repeat ${repeat}`);
    }
    return readPage(data, data.places[nameOf(address)], line.at);
  };

  const search = async (address, query, { onMessage, signal }) => {
    const place = data.places[nameOf(address)];
    const lines = await chosenRows(address, { ...query, sort: "" });
    for (const line of lines) {
      const page = await readPage(data, place, line.at);
      if (signal.aborted) {
        return;
      }
      if (fitsSearch(page.row, query)) {
        onMessage(line);
      }
    }
    onMessage({ done: true });
  };

  return {
    isExport: true,
    filters: data.filters.filters,
    canCompare: data.compared.length > 0,
    runs: async () => ({ runs: data.runs, who: "" }),
    data: async (name, address) => data.data[name][nameOf(address)],
    compare: (keys, signal) => readComparison(data, keys, signal),
    rows,
    search,
    row,
    labels: async () => [],
    watch: () => () => {},
  };
}
