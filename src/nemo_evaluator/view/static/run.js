// One run: what its report says, and the way to its rows.
import { Benchmark } from "./benchmark.js";
import { useData } from "./effects.js";
import { age, money, visible } from "./format.js";
import { html, useEffect, useState } from "./lib.js";
import { source } from "./source.js";
import { Chip, Wait } from "./widgets.js";

/** Follows a run: its newest state, and a number that grows when it has ended. */
function useRunChanges(key) {
  const [latest, setLatest] = useState(null);
  const [endings, setEndings] = useState(0);
  useEffect(() => {
    const onChange = run => {
      setLatest(earlier => {
        if (earlier && earlier.state === "running" && run.state !== "running") {
          setEndings(number => number + 1);
        }
        return run;
      });
    };
    return source.watch([key], onChange);
  }, [key]);
  return [latest, endings];
}

/** The page of a run. */
export function Run({ words: [, key] }) {
  const [latest, endings] = useRunChanges(key);
  const [run, error] = useData(signal => source.data("run", { run: key }, signal), [key, endings]);
  if (!run) {
    return html`<${Wait} error=${error} />`;
  }
  const current = latest || run;
  const readNames = run.parts.map(part => part.name);
  const unread = current.benchmarks.filter(benchmark => !readNames.includes(benchmark.name));
  const benchmarks = run.parts.map(part => {
    const line = current.benchmarks.find(benchmark => benchmark.name === part.name) || {};
    const progress = (current.status || []).find(benchmark => benchmark.name === part.name);
    return html`<${Benchmark}
      key=${part.name}
      run=${key}
      summary=${part}
      line=${line}
      progress=${progress}
      isRunning=${current.state === "running" && !line.finished}
    />`;
  });
  return html`<h1><bdi>${visible(run.model) || "Run"}</bdi></h1>
    <${Facts} run=${run} state=${current.state} />
    ${benchmarks}
    ${unread.map(benchmark => html`<${Unread} benchmark=${benchmark} />`)}`;
}

/** Where the run lies, how old it is, what it cost. */
function Facts({ run, state }) {
  return html`<p class="facts">
    <span>${visible(run.path)}</span>
    ${run.run_id && html`<span>${visible(run.run_id)}</span>`}
    <span>${age(run.age_seconds)} old</span>
    ${run.cost_usd && html`<span><b>${money(run.cost_usd)}</b></span>`}
    <span><${Chip} kind=${state}>${state}<//></span>
  </p>`;
}

/** A benchmark of which nothing but its status is known. */
function Unread({ benchmark }) {
  const status = visible(benchmark.status);
  return html`<section>
    <h2><bdi>${visible(benchmark.name)}</bdi> <${Chip}>${status}<//></h2>
  </section>`;
}
