// The table of rows: a window on any number of them; filters, order and place live in the URL.
import { html, useState, useEffect, useRef, useData, useKeys, link, go, plain, count, money, ms, visible, Chip, Wait, verdictOf } from "./lib.js";
import * as source from "./source.js";

const HEIGHT = 34, PAGE = 100, TALLEST = 8000000;
const COLUMNS = {
  verdict: ["Verdict", row => html`<${Chip} kind=${verdictOf(row)}>${row.cause || verdictOf(row)}<//>`],
  reward: ["Reward", row => plain(row.reward), "reward"],
  category: ["Category", row => visible(row.category ?? "")],
  prompt: ["Prompt", row => visible(row.prompt)],
  answer: ["Answer", row => visible(row.answer)],
  extracted: ["Extracted", row => visible(row.extracted)],
  expected: ["Expected", row => visible(row.expected)],
  finish_reason: ["Finish", row => visible(row.finish_reason ?? "")],
  tokens: ["Tokens", row => count(row.tokens), "tokens"],
  latency_ms: ["Latency", row => ms(row.latency_ms), "latency_ms"],
  cost: ["Cost", row => money(row.cost_usd), "cost"],
  label: ["Label", row => row.label && html`<${Chip} kind=${row.label}>${row.label}<//>`],
};
const SHOWN = "verdict,category,prompt,answer,expected,tokens,latency_ms";
const NOT_FILTERS = ["sort", "cols", "at", "review", "blind", "in"];
export const asked = query => Object.fromEntries(Object.entries(query).filter(([name]) => !["cols", "at", "review", "blind"].includes(name)));

export function Rows({ words: [, key, bench], query }) {
  const [facets] = useData(signal => source.facets(key, bench, signal), [key, bench]);
  const [fresh, setFresh] = useState(0);
  const [columns, setColumns] = useState(false);
  const box = useRef();
  useEffect(() => source.live([key], run => setFresh(old => { const line = run.benchmarks.find(one => one.name === bench); return line && !line.finished ? (line.scored ?? 0) + (line.failed ?? 0) : old; })), [key, bench]);
  const set = (name, value) => go(["rows", key, bench], { ...query, at: "", [name]: value }, true);
  const scans = Boolean(query.text) || Object.keys(query).some(name => name.startsWith("meta.") && query[name]);
  const filters = Object.entries(query).filter(([name, value]) => value && !NOT_FILTERS.includes(name));
  const shown = (query.cols || SHOWN).split(",").filter(name => COLUMNS[name] || name.startsWith("meta."));
  useKeys({ "/": () => box.current.focus() });
  const choose = name => set("cols", (shown.includes(name) ? shown.filter(one => one !== name) : [...shown, name]).join(","));
  const Choice = ({ name, title, values }) => html`<label>${title}<select aria-label=${title} value=${query[name] || ""} onChange=${event => set(name, event.target.value)}><option value="">all</option>
    ${values.map(([value, n]) => html`<option value=${value}>${visible(value)}${n !== undefined ? ` (${count(n)})` : ""}</option>`)}</select></label>`;
  const Range = ({ name, title, step = "any" }) => html`<label>${title}<span class="range"><input type="number" step=${step} aria-label=${`${title} at least`} placeholder="min" value=${query["min_" + name] || ""} onChange=${event => set("min_" + name, event.target.value)} />
    <input type="number" step=${step} aria-label=${`${title} at most`} placeholder="max" value=${query["max_" + name] || ""} onChange=${event => set("max_" + name, event.target.value)} /></span></label>`;
  return html`<h1><bdi>${visible(bench)}</bdi> <small>rows</small></h1>
    <div class="controls"><input ref=${box} type="search" class="text" placeholder="Search in prompts and answers" aria-label="Search in prompts and answers" value=${query.text || ""} onChange=${event => set("text", event.target.value)} />
      <select aria-label="Where to search" value=${query.in || "any"} onChange=${event => set("in", event.target.value)}><option value="any">prompt or answer</option><option value="prompt">prompt</option><option value="answer">answer</option></select>
      <button aria-expanded=${columns} onClick=${() => setColumns(!columns)}>Columns</button>
      ${!source.exported() && html`<a class="button" href=${source.exportUrl(key, bench, asked(query), "jsonl")} download>jsonl</a><a class="button" href=${source.exportUrl(key, bench, asked(query), "csv")} download>csv</a>`}
      ${filters.length > 0 && html`<button onClick=${() => go(["rows", key, bench], { cols: query.cols, sort: query.sort }, true)}>Clear ${filters.length} filter${filters.length > 1 ? "s" : ""}</button>`}</div>
    ${columns && html`<fieldset class="columns"><legend>Columns</legend>${[...Object.keys(COLUMNS), ...(facets?.metadata || []).map(name => "meta." + name)].map(name => html`<label><input type="checkbox" checked=${shown.includes(name)} onChange=${() => choose(name)} />${COLUMNS[name]?.[0] || visible(name.slice(5))}</label>`)}</fieldset>`}
    <details class="filters" open=${innerWidth > 700}><summary>Filters</summary><div class="filter-grid">
      <${Choice} name="status" title="Status" values=${[["scored"], ["failed"]]} />
      <${Choice} name="cause" title="Cause" values=${facets?.cause || []} /><${Choice} name="category" title="Category" values=${facets?.category || []} /><${Choice} name="finish_reason" title="Finish reason" values=${facets?.finish_reason || []} />
      ${[["truncated", "Truncated"], ["unparsed", "Unparsed"], ["refused", "Refused"], ["tripped", "Tripwires"]].map(([name, title]) => html`<label>${title}<select aria-label=${title} value=${query[name] || ""} onChange=${event => set(name, event.target.value)}><option value="">all</option><option value="1">yes</option><option value="0">no</option></select></label>`)}
      <${Choice} name="label" title="Label" values=${[["any"], ["none"], ["drawn"], ["right"], ["wrong"], ["unsure"]]} />
      <${Range} name="reward" title="Reward" /><${Range} name="tokens" title="Tokens" /><${Range} name="latency_ms" title="Latency, ms" />
      ${(facets?.metadata || []).slice(0, 12).map(name => html`<label>${visible(name)}<input type="text" placeholder="contains" value=${query["meta." + name] || ""} onChange=${event => set("meta." + name, event.target.value)} /></label>`)}
    </div></details>
    ${scans ? html`<${Found} key=${JSON.stringify(asked(query))} run=${key} bench=${bench} query=${query} shown=${shown} />`
      : html`<${Listed} run=${key} bench=${bench} query=${query} shown=${shown} fresh=${fresh} />`}`;
}

function Listed({ run, bench, query, shown, fresh }) {
  const wanted = asked(query), said = JSON.stringify([run, bench, wanted]);
  const pages = useRef({});
  const [total, setTotal] = useState(null);
  const [error, setError] = useState(null);
  const [, redraw] = useState(0);
  const load = async page => {
    if (pages.current[page]) return;
    const cache = pages.current;
    cache[page] = "coming";
    try {
      const found = await source.rows(run, bench, wanted, page * PAGE, PAGE);
      if (cache !== pages.current) return;
      cache[page] = found.rows;
      setTotal(found.total); setError(null); redraw(n => n + 1);
    } catch (problem) { if (cache === pages.current) { delete cache[page]; setError(problem); } }
  };
  useEffect(() => { pages.current = {}; load(Math.floor((Number(query.at) || 0) / PAGE)); }, [said]);
  // New rows: what is shown stays until the new ones are there.
  useEffect(() => { if (!fresh) return; const timer = setTimeout(() => { const kept = Object.keys(pages.current); pages.current = {}; (kept.length ? kept : [0]).slice(0, 4).forEach(page => load(Number(page))); }, 200); return () => clearTimeout(timer); }, [fresh]);
  const rowAt = at => { const page = pages.current[Math.floor(at / PAGE)]; return Array.isArray(page) ? page[at % PAGE] : null; };
  if (total === null) return html`<${Wait} error=${error} text="Reading rows …" />`;
  return html`<p class="note counted" role="status"><b>${count(total)}</b> row${total === 1 ? "" : "s"}</p>${error && html`<${Wait} error=${error} />`}
    <${Table} run=${run} bench=${bench} query=${query} shown=${shown} total=${total} rowAt=${rowAt} need=${(from, to) => { for (let page = Math.floor(from / PAGE); page <= Math.floor(to / PAGE); page++) load(page); }} />`;
}

function Found({ run, bench, query, shown }) {
  const hits = useRef([]);
  const stop = useRef(null);
  const [state, setState] = useState({ searched: 0, of: 0 });
  const [error, setError] = useState(null);
  useEffect(() => {
    stop.current = new AbortController();
    let due = 0;
    const each = one => {
      if (one.problem_idx === undefined) setState(old => ({ ...old, ...one, hits: hits.current.length }));
      else { hits.current.push(one); if (performance.now() > due) { due = performance.now() + 150; setState(old => ({ ...old, hits: hits.current.length })); } }
    };
    source.search(run, bench, asked(query), each, stop.current.signal).catch(problem => problem.name !== "AbortError" && setError(problem));
    return () => stop.current.abort();
  }, []);
  const halt = () => { stop.current.abort(); setState(old => ({ ...old, stopped: true })); };
  const over = state.done || state.stopped || state.full;
  return html`<p class="note counted" role="status"><b>${count(hits.current.length)}</b> row${hits.current.length === 1 ? "" : "s"} found
      ${state.full ? " (the first ones; narrow the search)" : state.stopped ? " (stopped)" : state.done ? "" : html` · ${state.of ? `${Math.round(100 * state.searched / state.of)}% searched` : "searching"} <button onClick=${halt}>Stop</button>`}</p>
    ${error && html`<${Wait} error=${error} />`}
    ${(hits.current.length > 0 || over) && html`<${Table} run=${run} bench=${bench} query=${query} shown=${shown} total=${hits.current.length} rowAt=${at => hits.current[at]} need=${() => {}} />`}`;
}

// The window: as many rows as fit; with very many rows the bar stands for shares, since a page cannot be that tall.
function Table({ run, bench, query, shown, total, rowAt, need }) {
  const frame = useRef();
  const room = Math.max(8, Math.floor((innerHeight - 330) / HEIGHT));
  const tall = Math.min(TALLEST, total * HEIGHT), last = Math.max(0, total - room);
  const [top, setTop] = useState(Math.min(last, Number(query.at) || 0));
  const [chosen, setChosen] = useState(Number(query.at) || 0);
  const scale = tall - room * HEIGHT > 0 ? last / (tall - room * HEIGHT) : 0;
  const first = Math.min(top, last), end = Math.min(total - 1, first + room);
  useEffect(() => need(first, Math.max(first, end)), [first, end, total]);
  useEffect(() => { if (frame.current && scale) frame.current.scrollTop = top / scale; }, [total]);
  const own = useRef(false);
  const scrolled = event => { if (own.current) { own.current = false; return; } setTop(Math.round(event.target.scrollTop * scale)); };
  const choose = at => {
    const to = Math.max(0, Math.min(total - 1, at));
    setChosen(to);
    history.replaceState(null, "", link(["rows", run, bench], { ...query, at: to }));
    if (to < first || to >= first + room - 1) { const next = Math.max(0, Math.min(last, to < first ? to : to - room + 2)); setTop(next); own.current = true; if (scale) frame.current.scrollTop = next / scale; }
  };
  const open = (row, at) => go(["row", run, bench, row.problem_idx, row.repeat], { ...query, at });
  useKeys({ j: () => choose(chosen + 1), ArrowDown: () => choose(chosen + 1), k: () => choose(chosen - 1), ArrowUp: () => choose(chosen - 1), PageDown: () => choose(chosen + room), PageUp: () => choose(chosen - room),
    Home: () => choose(0), End: () => choose(total - 1), Enter: event => event.target.closest("a, button") ? false : rowAt(chosen) && open(rowAt(chosen), chosen) });
  useEffect(() => { if (query.review && rowAt(0)) open(rowAt(0), 0); }, [query.review]);
  const order = name => go(["rows", run, bench], { ...query, at: "", sort: query.sort === name ? "-" + name : query.sort === "-" + name ? "" : name }, true);
  const numbers = Array.from({ length: Math.max(0, end - first + 1) }, (_, at) => first + at);
  const grid = { gridTemplateColumns: ["76px", ...shown.map(name => ({ prompt: "minmax(150px,2fr)", answer: "minmax(150px,2fr)", verdict: "112px", tokens: "76px", latency_ms: "84px", reward: "76px", cost: "76px", label: "86px" })[name] || "minmax(80px,1fr)")].join(" ") };
  if (!total) return html`<p class="wait">No row fits.</p>`;
  return html`<div class="grid" role="grid" aria-label="Rows" aria-rowcount=${total} aria-colcount=${shown.length + 1}>
    <div class="grid-head" role="row" style=${grid}>${["problem_idx", ...shown].map(name => { const [title, , by] = name === "problem_idx" ? ["#", null, "problem_idx"] : COLUMNS[name] || [name.slice(5)];
      return html`<span role="columnheader" aria-sort=${query.sort === by ? "ascending" : query.sort === "-" + by ? "descending" : "none"}>${by ? html`<button class="quiet" onClick=${() => order(by)}>${title}${query.sort === by ? " ▲" : query.sort === "-" + by ? " ▼" : ""}</button>` : visible(title)}</span>`; })}</div>
    <div class="grid-body" ref=${frame} onScroll=${scrolled} style=${{ height: `${Math.min(room, total) * HEIGHT}px` }} tabindex="0" aria-label="Rows, scroll for more">
      <div style=${{ height: `${tall}px`, position: "relative" }}><div class="window">${numbers.map(at => { const row = rowAt(at);
        return html`<a key=${at} role="row" aria-rowindex=${at + 1} class=${"grid-row" + (at === chosen ? " chosen" : "")} style=${grid} href=${row ? link(["row", run, bench, row.problem_idx, row.repeat], { ...query, at }) : undefined}>
          <span role="gridcell" class="number">${row ? `${row.problem_idx}${row.repeat ? `·${row.repeat}` : ""}` : "…"}</span>${shown.map(name => html`<span role="gridcell" dir="auto">${row ? COLUMNS[name] ? COLUMNS[name][1](row) : visible(row.metadata?.[name.slice(5)] ?? "") : ""}</span>`)}</a>`; })}</div></div></div></div>`;
}
