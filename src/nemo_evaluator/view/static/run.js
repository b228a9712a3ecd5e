// One run: what its report says, and the way to its rows.
import { html, useState, useEffect, useData, link, plain, percent, count, money, bounds, ms, ago, visible, Chip, Wait } from "./lib.js";
import * as source from "./source.js";

export function Run({ words: [, key] }) {
  const [round, setRound] = useState(0);
  const [fresh, setFresh] = useState(null);
  const [run, error] = useData(signal => source.run(key, signal), [key, round]);
  useEffect(() => source.live([key], now => { setFresh(old => { if (old && old.state === "running" && now.state !== "running") setRound(round => round + 1); return now; }); }), [key]);
  if (!run) return html`<${Wait} error=${error} />`;
  const now = fresh || run;
  return html`<h1><bdi>${visible(run.model) || "Run"}</bdi></h1>
    <p class="facts"><span>${visible(run.path)}</span>${run.run_id && html`<span>${visible(run.run_id)}</span>`}<span>${ago(run.age_seconds)} old</span>${run.cost_usd && html`<span><b>${money(run.cost_usd)}</b></span>`}<span><${Chip} kind=${now.state}>${now.state}<//></span></p>
    ${run.parts.map(part => html`<${Benchmark} key=${part.name} run=${key} part=${part} line=${now.benchmarks.find(one => one.name === part.name) || {}} live=${(now.status || []).find(one => one.name === part.name)} state=${now.state} />`)}
    ${now.benchmarks.filter(one => !run.parts.some(part => part.name === one.name)).map(one => html`<section><h2><bdi>${visible(one.name)}</bdi> <${Chip}>${visible(one.status)}<//></h2></section>`)}`;
}

function Benchmark({ run, part, line, live, state }) {
  const [round, setRound] = useState(0);
  const [figures] = useData(signal => source.figures(run, part.name, signal), [run, part.name, round]);
  const running = state === "running" && !line.finished;
  useEffect(() => { if (running) { const timer = setInterval(() => setRound(round => round + 1), 5000); return () => clearInterval(timer); } }, [running]);
  const rows = query => link(["rows", run, part.name], query);
  const done = (line.scored ?? 0) + (line.failed ?? 0);
  return html`<section class="benchmark" data-benchmark=${part.name}>
    <h2><a href=${rows()}><bdi>${visible(part.title || part.name)}</bdi></a> <${Chip} kind=${line.status}>${visible(line.status)}<//></h2>
    <p class="facts"><span class="headline"><b>${plain(line.score)}</b> ${visible(line.metric || "")} <i>${bounds(line.lower, line.upper)}</i></span>${line.corrected && html`<span class="headline corrected"><b>${plain(line.corrected.value)}</b> ${visible(line.corrected.name)} <i>${bounds(line.corrected.ci_lower, line.corrected.ci_upper)}</i></span>`}
      <span>coverage <b>${percent(line.coverage)}</b> (${count(line.scored)}${line.planned ? ` of ${count(line.planned)}` : ""})</span>
      ${part.truncated_share > 0 && html`<span>truncated <b>${percent(part.truncated_share)}</b></span>`}${part.unparsed_share > 0 && html`<span>unparsed <b>${percent(part.unparsed_share)}</b></span>`}
      ${part.runtime?.total_tokens && html`<span><b>${count(part.runtime.total_tokens)}</b> tokens</span>`}${part.runtime?.p50_ms && html`<span>P50 <b>${ms(part.runtime.p50_ms)}</b></span>`}
      ${line.cost_usd && html`<span><b>${money(line.cost_usd)}</b></span>`}</p>
    ${running && html`<p class="live" role="status"><progress max=${line.planned || undefined} value=${done} aria-label="progress" /> <b class="done">${count(done)}</b> of ${count(line.planned)} done, ${count(line.failed)} failed${live?.rate ? ` · ${live.rate.toFixed(1)}/s` : ""}${live?.eta_seconds ? ` · ${ago(live.eta_seconds)} left` : ""}</p>`}
    ${part.invalid?.length > 0 && html`<div class="alarm box" role="alert"><b>Do not use these scores.</b><ul>${part.invalid.map(said => html`<li>${visible(said)}</li>`)}</ul></div>`}
    ${part.missing.length > 0 && html`<div class="mind"><b>Missing</b><ul>${part.missing.map(said => html`<li>${visible(said)}</li>`)}</ul></div>`}
    ${part.notes.map(said => html`<p class="note">${visible(said)}</p>`)}
    <p class="ways"><a class="button main" href=${rows()}>All rows</a> <a class="button" href=${rows({ max_reward: "0.999", status: "scored" })}>Wrong</a> <a class="button" href=${rows({ status: "failed" })}>Failed</a>
      <a class="button" href=${rows({ truncated: "1" })}>Truncated</a> <a class="button" href=${rows({ unparsed: "1" })}>Unparsed</a> <a class="button" href=${rows(part.drawn && !source.exported() ? { review: "1", blind: "1", label: "drawn" } : { review: "1" })}>Review</a></p>
    ${figures ? html`<div class="panels" dangerouslySetInnerHTML=${{ __html: figures.html }} />` : html`<p class="wait">Drawing plots …</p>`}
    ${part.failures.length > 0 && html`<details open><summary>Failures by cause</summary><div class="scroll"><table><thead><tr><th scope="col">Cause</th><th scope="col" class="r">Rows</th><th scope="col" class="r">Share</th><th scope="col">Example</th></tr></thead>
      <tbody>${part.failures.map(one => html`<tr><td><a href=${rows({ cause: one.cause })}>${visible(one.cause)}</a></td><td class="r">${count(one.count)}</td><td class="r">${percent(one.share)}</td><td class="text">${visible(one.examples[0] || "")}</td></tr>`)}</tbody></table></div></details>`}
    ${part.scores.length > 1 && html`<details><summary>All scores</summary><div class="scroll"><table><thead><tr><th scope="col">Score</th><th scope="col" class="r">Value</th><th scope="col" class="r">95% interval</th><th scope="col" class="r">n</th></tr></thead>
      <tbody>${part.scores.map(one => html`<tr><td>${visible(one.name)}</td><td class="r">${plain(one.value)}</td><td class="r">${bounds(one.ci_lower, one.ci_upper)}</td><td class="r">${count(one.n)}</td></tr>`)}</tbody></table></div></details>`}
    ${Object.keys(part.config).length > 0 && html`<details><summary>Settings</summary><pre>${visible(JSON.stringify(part.config, null, 2))}</pre></details>`}
  </section>`;
}
