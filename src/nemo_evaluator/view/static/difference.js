// What differs between two texts.
import { visible } from "./format.js";
import { html, useMemo } from "./lib.js";
import "./vendor/diff.js";

// Longer texts are compared by lines and not by words, so that the page does not stand still.
const MOST_BY_WORDS = 40_000;
const TIMEOUT_MS = 800;

/** The parts of two texts, each of which both have, or one; undefined when they differ too much. */
function differences(before, after) {
  const isLong = before.length + after.length > MOST_BY_WORDS;
  const compare = isLong ? globalThis.Diff.diffLines : globalThis.Diff.diffWordsWithSpace;
  return compare(before, after, { timeout: TIMEOUT_MS });
}

function Part({ part }) {
  if (part.added) {
    return html`<ins>${part.value}</ins>`;
  }
  if (part.removed) {
    return html`<del>${part.value}</del>`;
  }
  return part.value;
}

/** Two texts as one, in which what was added and what was removed is marked. */
export function Difference({ before, after }) {
  const parts = useMemo(() => differences(visible(before), visible(after)), [before, after]);
  if (!parts) {
    return html`<p class="note">The answers differ too much for a diff.</p>`;
  }
  const marked = parts.map(part => html`<${Part} part=${part} />`);
  return html`<pre
    class="diff"
    dir="auto"
    tabindex="0"
    aria-label="difference of the two answers"
  >${marked}</pre>`;
}
