// What the browser keeps between visits. A browser may be set to keep nothing: then it throws, and
// nothing is kept.

/** Returns what was kept under a name, or an empty text. */
export function recall(name) {
  try {
    return localStorage.getItem(name) || "";
  } catch {
    return "";
  }
}

/** Keeps a text under a name. */
export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // The page works without it.
  }
}
