// What every page uses: components, routes in the hash, numbers as people read them.
import { h, render, Fragment } from "./vendor/preact.js";
import { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
export { render, Fragment, useState, useEffect, useRef, useMemo, useCallback };

// The route: words of the path and the parameters after "?", all in the hash, so that a link shows what I see.
export function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const words = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { words, query: Object.fromEntries(new URLSearchParams(query || "")) };
}

export function link(words, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const said = new URLSearchParams(given).toString();
  return "#/" + words.map(encodeURIComponent).join("/") + (said ? "?" + said : "");
}

export function go(words, query, replace = false) {
  const to = link(words, query);
  if (replace) { history.replaceState(null, "", to); dispatchEvent(new HashChangeEvent("hashchange")); } else location.hash = to;
}

// A promise as [value, error]; asked again when `what` changes.
export function useData(ask, what) {
  const [state, set] = useState([null, null]);
  useEffect(() => {
    let current = true;
    const stop = new AbortController();
    ask(stop.signal).then(value => current && set([value, null]), error => current && error.name !== "AbortError" && set([null, error]));
    return () => { current = false; stop.abort(); };
  }, what);
  return state;
}

// Keys of a page; none while somebody types.
export function useKeys(keys) {
  const now = useRef(keys);
  now.current = keys;
  // Before it is painted: who sees a page may press a key.
  useLayoutEffect(() => {
    const hear = event => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (/^(input|textarea|select)$/i.test(event.target.tagName) && event.key !== "Escape") return;
      const act = now.current[event.key];
      if (act && act(event) !== false) event.preventDefault();
    };
    addEventListener("keydown", hear);
    return () => removeEventListener("keydown", hear);
  }, []);
}

export const plain = value => value === null || value === undefined ? "–" : Number(value).toFixed(4).replace(/\.?0+$/, match => match.startsWith(".") ? "" : match.replace(/0+$/, ""));
export const percent = value => value === null || value === undefined ? "–" : `${(100 * value).toFixed(1).replace(/\.0$/, "")}%`;
export const count = value => value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en");
export const money = value => value ? `$${value < 1 ? value.toFixed(4) : value.toFixed(2)}` : "–";
export const ms = value => value === null || value === undefined ? "–" : value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
export const bounds = (low, high) => low === null || low === undefined || high === null ? "" : `[${low.toFixed(3)}, ${high.toFixed(3)}]`;
export const size = bytes => bytes < 1024 ? `${bytes} B` : bytes < 1048576 ? `${(bytes / 1024).toFixed(0)} KB` : `${(bytes / 1048576).toFixed(1)} MB`;
export function ago(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  for (const [unit, word] of [[86400, "d"], [3600, "h"], [60, "m"]]) if (seconds >= unit) return `${Math.floor(seconds / unit)}${word}`;
  return `${Math.max(0, Math.floor(seconds))}s`;
}

// Characters that turn the reading direction round, hide or ring: shown by their numbers.
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
export const visible = text => String(text ?? "").replace(UNSEEN, sign => `‹${sign.codePointAt(0).toString(16).padStart(4, "0")}›`);

export function Chip({ kind, children }) { return html`<span class=${"chip " + String(kind || "").toLowerCase().replaceAll(" ", "-")}>${children}</span>`; }
export function Wait({ error, text = "Loading …" }) {
  return error ? html`<p class="alarm box" role="alert">${visible(error.message)}${error.hint ? html` <small>${visible(error.hint)}</small>` : ""}</p>` : html`<p class="wait" role="status">${text}</p>`;
}
export const verdictOf = row => row.cause ? "failed" : row.reward === null ? "unscored" : row.reward >= 1 ? "right" : row.unparsed ? "unparsed" : row.truncated ? "truncated" : row.reward > 0 ? "partly" : "wrong";
