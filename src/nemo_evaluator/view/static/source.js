// Where the pages' data comes from: the server, or files that `nel view --export` wrote.
import { exportSource } from "./export_source.js";
import { serverSource } from "./server_source.js";

/**
 * The source of this page; set before the first page is drawn. Both kinds have the same methods.
 * `address` is `{run, bench}`, the key of a run and the name of a benchmark; that of a row also has
 * `problem` and `repeat`. Methods return promises, `watch` and `downloadUrl` excepted.
 *
 * - `runs(signal)`: all runs.
 * - `data(name, address, signal)`: the data with that name in `view/page_data.py`: `run`, the page
 *   of a run, for which `address` has no `bench`; `figures`, `{html}` with the plots of a
 *   benchmark; `facets`, what its rows can be filtered by.
 * - `compare(keys, signal)`: runs side by side.
 * - `rows(address, query, {offset, limit, signal})`: `{total, rows}`, a part of the rows that fit.
 * - `search(address, query, {onMessage, signal})`: calls `onMessage` with each row that has a text,
 *   and with objects that say how far the search is.
 * - `row(address, signal)`: everything about a row.
 * - `textPart(address, path, start)`: a further part of a long text.
 * - `labels(address)`, `label(address, label)`: people's labels; writes one.
 * - `watch(keys, onRun)`: calls `onRun` with each run that has changed; returns what ends it.
 * - `isExport`, `canCompare`, `filters`: what this source is and has; the filters are those of
 *   row_filters.json.
 * - `downloadUrl(address, query, format)`: where the rows can be had as a file.
 */
export let source = null;

/** Finds out which source there is. */
export async function start() {
  const inline = document.getElementById("nel-data");
  const isExportFolder = document.querySelector("meta[name=nel-export]") !== null;
  if (inline) {
    source = exportSource(JSON.parse(inline.textContent));
  } else if (isExportFolder) {
    const reply = await fetch("data/export.json");
    source = exportSource(await reply.json());
  } else {
    source = await serverSource();
  }
}
