// The frame of all pages: where we are, keys that work everywhere, the theme.
import { html, render, route, useState, useEffect, useKeys, link, go, visible } from "./lib.js";
import * as source from "./source.js";
import { Runs } from "./runs.js";
import { Run } from "./run.js";
import { Rows } from "./rows.js";
import { Row } from "./row.js";
import { Compare } from "./compare.js";

const PAGES = { run: Run, rows: Rows, row: Row, compare: Compare };
const HELP = [["?", "this list"], ["g", "all runs"], ["u", "one level up"], ["/", "search"], ["j / k", "next / previous row"], ["Enter", "open the row"],
  ["[ / ]", "previous / next error of a trajectory"], ["1 2 3", "label right, wrong, unsure"], ["0", "take the label back"], ["n", "write a note"], ["b", "blind review"], ["t", "light or dark"]];

function App() {
  const [here, setHere] = useState(route());
  const [help, setHelp] = useState(false);
  useEffect(() => {
    const move = () => { const now = route(); setHere(now); if (now.words.join("/") !== here.words.join("/")) scrollTo(0, 0); };
    addEventListener("hashchange", move);
    return () => removeEventListener("hashchange", move);
  }, [here]);
  const [page, key, bench] = here.words;
  const up = () => page === "row" ? go(["rows", key, bench], drop(here.query, "at")) : page === "rows" ? go(["run", key]) : go([]);
  useKeys({ "?": () => setHelp(!help), Escape: () => help ? setHelp(false) : false, g: () => go([]), u: up, t: theme });
  const Page = PAGES[page] || Runs;
  return html`
    <header class="bar">
      <nav aria-label="Where you are"><a href="#/"><b>nel view</b></a>
        ${key && page !== "compare" && html`<span>/</span><a href=${link(["run", key])}>run</a>`}
        ${bench && html`<span>/</span><a href=${link(["rows", key, bench], drop(here.query, "at"))}>${visible(bench)}</a>`}
        ${page === "row" && html`<span>/</span><span aria-current="page">problem ${here.words[3]}${here.words[4] !== "0" ? ` · repeat ${here.words[4]}` : ""}</span>`}
        ${page === "compare" && html`<span>/</span><span aria-current="page">compare</span>`}</nav>
      <span class="tools"><button onClick=${() => setHelp(!help)} aria-expanded=${help} title="Keys (?)">?</button>
        <button onClick=${theme} title="Light or dark (t)" aria-label="Switch between light and dark">◐</button></span>
    </header>
    ${help && html`<section class="help" role="dialog" aria-label="Keys"><h2>Keys</h2><dl>${HELP.map(([sign, what]) => html`<dt><kbd>${sign}</kbd></dt><dd>${what}</dd>`)}</dl></section>`}
    <main id="main" class=${"page page-" + (page || "runs")}><${Page} key=${[page, key, bench].join("/")} words=${here.words} query=${here.query} /></main>`;
}

const drop = (query, name) => Object.fromEntries(Object.entries(query).filter(([one]) => one !== name));

function theme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("nel-theme", document.documentElement.dataset.theme); } catch { /* a browser that keeps nothing */ }
}

try { const kept = localStorage.getItem("nel-theme"); if (kept) document.documentElement.dataset.theme = kept; } catch { /* a browser that keeps nothing */ }
source.start().then(() => { const root = document.getElementById("app"); root.replaceChildren(); render(html`<${App} />`, root); });
