// Texts of models: as they are, or as markdown with nothing in it that could act or load.
import { count, visible } from "./format.js";
import { html, useMemo, useState } from "./lib.js";
import { source } from "./source.js";
import { Marked } from "./vendor/marked.js";
import "./vendor/purify.js";

const TAGS = [
  ..."p br hr strong em b i u s del code pre ul ol li blockquote sup sub a".split(" "),
  ..."h1 h2 h3 h4 h5 h6 table thead tbody tr th td".split(" "),
];
const SAFE = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", "start"],
  ALLOWED_URI_REGEXP: /^https?:\/\//i,
};
const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
// Longer texts are shown as they are.
const MOST_RENDERED = 200_000;

function escapeHtml(text) {
  return String(text).replace(/[&<>"]/g, sign => ENTITIES[sign]);
}

// HTML and images of a model are shown as the text that they are.
const RENDERER = {
  html: token => escapeHtml(token.raw ?? token.text),
  image: token => escapeHtml(`![${token.text}](${token.href})`),
};

/** Markdown as HTML that is safe to show; its links open elsewhere and tell nothing. */
function renderMarkdown(text) {
  const rendered = new Marked({ renderer: RENDERER, async: false }).parse(text);
  const clean = globalThis.DOMPurify.sanitize(rendered, SAFE);
  return clean.replaceAll("<a ", '<a target="_blank" rel="noopener noreferrer nofollow" ');
}

/**
 * A text, of a long one the beginning.
 * @param {Object} props `where` is the address of the row, with `cut`, the full lengths of the
 *   texts that were cut by their paths; `path` is the path of this one.
 */
export function Text({ text, where, path, markdown = true, label }) {
  const [isRaw, setIsRaw] = useState(!markdown);
  const [more, setMore] = useState("");
  const shown = (text ?? "") + more;
  const fullLength = where?.cut[path] || 0;
  const canRender = markdown && !more && shown.length < MOST_RENDERED;
  const rendered = useMemo(() => {
    return canRender && !isRaw ? renderMarkdown(visible(shown)) : null;
  }, [shown, isRaw, canRender]);
  const showMore = async () => {
    const { cut: _, ...address } = where;
    const part = await source.textPart(address, path, shown.length);
    setMore(more + part);
  };
  const toggle = html`<button
    class="quiet"
    aria-pressed=${isRaw}
    onClick=${() => setIsRaw(!isRaw)}
    title="Markdown or plain text"
  >${isRaw ? "rendered" : "raw"}</button>`;
  const rest = html`<${Rest} shown=${shown.length} total=${fullLength} onMore=${showMore} />`;
  return html`<div class="text-box">
    ${canRender && toggle}
    <${TextBody} text=${shown} rendered=${rendered} label=${label} />
    ${fullLength > shown.length && rest}
  </div>`;
}

/** The text itself: rendered HTML if there is any, or the plain text. */
function TextBody({ text, rendered, label }) {
  if (rendered === null) {
    const shown = visible(text) || "(empty)";
    return html`<pre dir="auto" tabindex="0" aria-label=${label}>${shown}</pre>`;
  }
  const content = { __html: rendered };
  return html`<div
    class="md"
    dir="auto"
    tabindex="0"
    aria-label=${label}
    dangerouslySetInnerHTML=${content}
  />`;
}

/** How much of a text is shown, and the way to more of it. */
function Rest({ shown, total, onMore }) {
  const way = source.isExport
    ? " The rest is in the run."
    : html` <button onClick=${onMore}>Show more</button>`;
  return html`<p class="note cut">${count(shown)} of ${count(total)} characters shown.${way}</p>`;
}
