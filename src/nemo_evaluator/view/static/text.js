// Texts of models: as they are, or as markdown with nothing in it that could act or load.
import { Marked } from "./vendor/marked.js";
import "./vendor/purify.js";
import "./vendor/diff.js";
import { html, useState, useMemo, visible, size, count } from "./lib.js";
import * as source from "./source.js";

const SAFE = {
  ALLOWED_TAGS: "p br hr strong em b i u s del code pre ul ol li h1 h2 h3 h4 h5 h6 blockquote table thead tbody tr th td sup sub a".split(" "),
  ALLOWED_ATTR: ["href", "start"],
  ALLOWED_URI_REGEXP: /^https?:\/\//i,
};
const MOST = 200000;

function rendered(text) {
  // HTML of a model is shown, not taken as HTML.
  const renderer = { html: token => escape(token.raw ?? token.text), image: token => escape(`![${token.text}](${token.href})`) };
  const clean = globalThis.DOMPurify.sanitize(new Marked({ renderer, async: false }).parse(text), SAFE);
  return clean.replaceAll("<a ", '<a target="_blank" rel="noopener noreferrer nofollow" ');
}
const escape = text => String(text).replace(/[&<>"]/g, sign => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);

// A text, the beginning of it where it is long; `where` says how to ask for the rest.
export function Text({ text, where, path, markdown = true, label, open = true }) {
  const [raw, setRaw] = useState(!markdown);
  const [more, setMore] = useState("");
  const whole = (where && where.cut[path]) || 0;
  const shown = (text ?? "") + more;
  const left = Math.max(0, whole - shown.length);
  const can = markdown && !more && shown.length < MOST;
  const body = useMemo(() => can && !raw ? rendered(visible(shown)) : null, [shown, raw, can]);
  const next = async () => setMore(more + await source.part(where.key, where.bench, where.problem, where.repeat, path, shown.length));
  return html`<div class="text-box">
    ${can && html`<button class="quiet" aria-pressed=${raw} onClick=${() => setRaw(!raw)} title="Markdown or plain text">${raw ? "rendered" : "raw"}</button>`}
    ${body !== null ? html`<div class="md" dir="auto" tabindex="0" aria-label=${label} dangerouslySetInnerHTML=${{ __html: body }} />`
      : html`<pre dir="auto" tabindex="0" aria-label=${label}>${visible(shown) || "(empty)"}</pre>`}
    ${left > 0 && html`<p class="note cut">${count(shown.length)} of ${count(whole)} characters shown.
      ${source.exported() ? " The rest is in the run." : html` <button onClick=${next}>Show more</button>`}</p>`}
  </div>`;
}

// Messages as they were sent; images only where they are ones.
export function Messages({ messages, where, path = "sent" }) {
  return (messages || []).map((message, at) => html`<div class=${"message " + visible(message.role)}>
    <h4>${visible(message.role)}${message.name ? ` · ${visible(message.name)}` : ""}</h4>
    ${Array.isArray(message.content)
      ? message.content.map((part, number) => html`<${Part} part=${part} where=${where} path=${`${path}/${at}/content/${number}/text`} />`)
      : html`<${Text} text=${typeof message.content === "string" ? message.content : JSON.stringify(message.content ?? "")} where=${where} path=${`${path}/${at}/content`} markdown=${false} label=${`message of ${message.role}`} />`}
    ${message.tool_calls && html`<pre>${visible(JSON.stringify(message.tool_calls, null, 2))}</pre>`}
  </div>`);
}

function Part({ part, where, path }) {
  const url = part?.image_url?.url ?? part?.image_url;
  if (typeof url === "string") return html`<${Picture} url=${url} />`;
  const text = typeof part?.text === "string" ? part.text : JSON.stringify(part);
  return html`<${Text} text=${text} where=${where} path=${path} markdown=${false} />`;
}

export function Picture({ url }) {
  const [broken, setBroken] = useState(false);
  if (!/^data:image\/(png|jpe?g|gif|webp);base64,[\w+/=\s]+$/.test(url)) return html`<p class="note">image at ${visible(url.slice(0, 200))}</p>`;
  return broken ? html`<p class="note">an image that cannot be shown (${size(url.length)})</p>` : html`<img class="picture" src=${url} alt="image of the problem" onError=${() => setBroken(true)} />`;
}

// What differs between two texts, word by word; long ones by lines, so that the page does not stand still.
export function Diff({ before, after }) {
  const parts = useMemo(() => {
    const a = visible(before ?? ""), b = visible(after ?? "");
    const way = a.length + b.length > 40000 ? "diffLines" : "diffWordsWithSpace";
    return globalThis.Diff[way](a, b, { timeout: 800 });
  }, [before, after]);
  if (!parts) return html`<p class="note">The answers differ too much for a diff.</p>`;
  return html`<pre class="diff" dir="auto" tabindex="0" aria-label="difference of the two answers">${parts.map(part =>
    part.added ? html`<ins>${part.value}</ins>` : part.removed ? html`<del>${part.value}</del>` : part.value)}</pre>`;
}
