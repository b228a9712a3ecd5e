// Where the page is: words of a path and parameters, all in the hash, so that a link shows what its
// sender sees.

/**
 * Reads the address bar.
 * @returns {{words: string[], query: Object<string, string>}} The path's words and its parameters.
 */
export function route() {
  const [path, parameters] = location.hash.replace(/^#\/?/, "").split("?");
  const words = path.split("/").filter(Boolean).map(decodeURIComponent);
  const query = Object.fromEntries(new URLSearchParams(parameters || ""));
  return { words, query };
}

/**
 * Makes the address of a page.
 * @param {Array<string|number>} words The path.
 * @param {Object} query The parameters; those without a value are left out.
 * @returns {string} A hash for an `href`.
 */
export function link(words, query = {}) {
  const isGiven = value => value !== "" && value !== undefined && value !== null;
  const given = Object.entries(query).filter(([, value]) => isGiven(value));
  const parameters = new URLSearchParams(given).toString();
  const path = words.map(encodeURIComponent).join("/");
  return parameters ? `#/${path}?${parameters}` : `#/${path}`;
}

/** Goes to a page, as a step that the browser's Back button undoes. */
export function go(words, query) {
  location.hash = link(words, query);
}

/** Goes to a page in place of this one: Back skips this one. */
export function replace(words, query) {
  history.replaceState(null, "", link(words, query));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Returns the parameters without some of them. */
export function without(query, ...names) {
  return Object.fromEntries(Object.entries(query).filter(([name]) => !names.includes(name)));
}
