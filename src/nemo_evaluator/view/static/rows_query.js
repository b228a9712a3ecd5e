// The parameters of the rows page: which choose rows, and which only say how they are shown.
import { without } from "./route.js";

const OF_THE_PAGE = ["cols", "at", "review", "blind"];
const NOT_FILTERS = [...OF_THE_PAGE, "sort", "in"];
export const METADATA = "meta.";

/** The parameters that say which rows are wanted, and in which order. */
export function rowsQuery(query) {
  return without(query, ...OF_THE_PAGE);
}

/** The names of the parameters that filter. */
export function filterNames(query) {
  const isFilter = name => query[name] && !NOT_FILTERS.includes(name);
  return Object.keys(query).filter(isFilter);
}

/** Whether only the rows themselves can tell which fit: the index has no texts. */
export function needsSearch(query) {
  const hasMetadata = Object.keys(query).some(name => name.startsWith(METADATA) && query[name]);
  return Boolean(query.text) || hasMetadata;
}

/** The name of the metadata field that a parameter or a column stands for. */
export function metadataField(name) {
  return name.slice(METADATA.length);
}
