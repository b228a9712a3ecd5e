// The frame of all pages: where we are, keys that work everywhere, the theme.
import { Compare } from "./compare.js";
import { useKeys } from "./effects.js";
import { visible } from "./format.js";
import { html, render, useEffect, useState } from "./lib.js";
import { go, link, route, without } from "./route.js";
import { Row } from "./row.js";
import { Rows } from "./rows.js";
import { Run } from "./run.js";
import { Runs } from "./runs.js";
import { start } from "./source.js";
import { restoreTheme, switchTheme } from "./theme.js";

const PAGES = { run: Run, rows: Rows, row: Row, compare: Compare };
const HELP = [
  ["?", "this list"],
  ["g", "all runs"],
  ["u", "one level up"],
  ["/", "search"],
  ["j / k", "next / previous row"],
  ["Enter", "open the row"],
  ["[ / ]", "previous / next error of a trajectory"],
  ["1 2 3", "label right, wrong, unsure"],
  ["0", "take the label back"],
  ["n", "write a note"],
  ["b", "blind review"],
  ["t", "light or dark"],
];

/** Follows the address bar; a page that is another one begins at its top. */
function useRoute() {
  const [here, setHere] = useState(route());
  useEffect(() => {
    const follow = () => {
      const next = route();
      setHere(next);
      if (next.words.join("/") !== here.words.join("/")) {
        scrollTo(0, 0);
      }
    };
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, [here]);
  return here;
}

/** Goes one level up: from a row to its table, from there to the run, from there to all runs. */
function goUp({ words, query }) {
  const [page, run, bench] = words;
  if (page === "row") {
    go(["rows", run, bench], without(query, "at"));
  } else if (page === "rows") {
    go(["run", run]);
  } else {
    go([]);
  }
}

/** The place of a row in its run, as the last step of the path. */
function rowName(problem, repeat) {
  const suffix = repeat !== "0" ? ` · repeat ${repeat}` : "";
  return `problem ${problem}${suffix}`;
}

/** The end of the path: this page, which needs no link. */
function LastStep({ name }) {
  return html`<span>/</span><span aria-current="page">${name}</span>`;
}

/** The path from all runs to this page. */
function Path({ here }) {
  const [page, run, bench, problem, repeat] = here.words;
  const rowsLink = link(["rows", run, bench].filter(Boolean), without(here.query, "at"));
  return html`<nav aria-label="Where you are">
    <a href="#/"><b>nel view</b></a>
    ${run && page !== "compare" && html`<span>/</span><a href=${link(["run", run])}>run</a>`}
    ${bench && html`<span>/</span><a href=${rowsLink}>${visible(bench)}</a>`}
    ${page === "row" && html`<${LastStep} name=${rowName(problem, repeat)} />`}
    ${page === "compare" && html`<${LastStep} name="compare" />`}
  </nav>`;
}

/** The list of keys. */
function Help() {
  const keys = HELP.map(([sign, action]) => html`<dt><kbd>${sign}</kbd></dt><dd>${action}</dd>`);
  return html`<section class="help" role="dialog" aria-label="Keys">
    <h2>Keys</h2>
    <dl>${keys}</dl>
  </section>`;
}

/** The bar at the top, and the page that the address names. */
function App() {
  const here = useRoute();
  const [showsHelp, setShowsHelp] = useState(false);
  const toggleHelp = () => setShowsHelp(!showsHelp);
  const closeHelp = () => {
    setShowsHelp(false);
    // Without help on the page, Escape is the browser's.
    return showsHelp;
  };
  useKeys({
    "?": toggleHelp,
    Escape: closeHelp,
    g: () => go([]),
    u: () => goUp(here),
    t: switchTheme,
  });
  const [page, run, bench] = here.words;
  const Page = PAGES[page] || Runs;
  return html`
    <header class="bar">
      <${Path} here=${here} />
      <span class="tools">
        <button onClick=${toggleHelp} aria-expanded=${showsHelp} title="Keys (?)">?</button>
        <button
          onClick=${switchTheme}
          title="Light or dark (t)"
          aria-label="Switch between light and dark"
        >◐</button>
      </span>
    </header>
    ${showsHelp && html`<${Help} />`}
    <main id="main" class=${`page page-${page || "runs"}`}>
      <${Page} key=${[page, run, bench].join("/")} words=${here.words} query=${here.query} />
    </main>`;
}

restoreTheme();
start().then(() => {
  const root = document.getElementById("app");
  root.replaceChildren();
  render(html`<${App} />`, root);
});
