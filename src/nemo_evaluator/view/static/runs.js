// All runs; those that run move by themselves.
import { html, useState, useEffect, useData, useKeys, useRef, link, go, plain, percent, money, bounds, ago, count, visible, Chip, Wait } from "./lib.js";
import * as source from "./source.js";

export function Runs({ query }) {
  const [data, error] = useData(signal => source.runs(signal), []);
  const [fresh, setFresh] = useState({});
  const [picked, setPicked] = useState([]);
  const box = useRef();
  useEffect(() => source.live([], run => setFresh(old => ({ ...old, [run.key]: run }))), []);
  useKeys({ "/": () => box.current.focus() });
  if (!data) return html`<${Wait} error=${error} />`;
  const known = data.runs.map(run => fresh[run.key] || run);
  const added = Object.values(fresh).filter(run => !data.runs.some(one => one.key === run.key));
  const words = (query.q || "").toLowerCase().split(/\s+/).filter(Boolean);
  const shown = [...added, ...known].filter(run => words.every(word => JSON.stringify([run.model, run.path, run.run_id, run.state, run.benchmarks.map(one => [one.name, one.status])]).toLowerCase().includes(word)));
  const pick = key => setPicked(picked.includes(key) ? picked.filter(one => one !== key) : [...picked, key]);
  return html`<h1>Runs</h1>
    <div class="controls"><input ref=${box} type="search" placeholder="Search model, benchmark, folder, status" aria-label="Search runs" value=${query.q || ""} onInput=${event => go([], { q: event.target.value }, true)} />
      <span class="note" role="status">${count(shown.length)} of ${count(known.length + added.length)} runs</span>
      ${source.comparable() && html`<button class="main" disabled=${picked.length < 2} onClick=${() => go(["compare", picked.join(",")])}>Compare ${picked.length || ""}</button>`}</div>
    ${picked.length === 1 && html`<p class="note">The first one picked is the baseline; pick one or more candidates.</p>`}
    <section class="list" aria-label="Runs"><table class="scores runs"><thead><tr><th scope="col"><span class="unseen">Pick</span></th><th scope="col">Model</th><th scope="col">Benchmark</th><th scope="col" class="r">Score</th>
      <th scope="col" class="r">95% interval</th><th scope="col">Status</th><th scope="col" class="r">Coverage</th><th scope="col" class="r">Cost</th><th scope="col" class="r">Age</th></tr></thead>
    ${shown.map(run => html`<tbody key=${run.key} data-run=${run.key}>${(run.benchmarks.length ? run.benchmarks : [{ name: "(nothing yet)", status: "" }]).map((one, at) => html`<tr>
      <td>${!at && source.comparable() && html`<input type="checkbox" aria-label=${`Pick ${run.path}`} checked=${picked.includes(run.key)} onChange=${() => pick(run.key)} />`}</td>
      <td class="name">${!at && html`<a href=${link(["run", run.key])}><bdi>${visible(run.model) || "unnamed"}</bdi></a><small class="where"><bdi>${visible(run.path.split("/").slice(-2).join("/"))}</bdi></small>`}</td>
      <td data-label="Benchmark">${one.scored !== undefined ? html`<a href=${link(["rows", run.key, one.name])}><bdi>${visible(one.name)}</bdi></a>` : visible(one.name)}</td>
      <td class="r big" data-label="Score"><span>${plain(one.score)}<small>${one.metric ? ` ${visible(one.metric)}` : ""}${one.corrected ? ` · ${plain(one.corrected.value)} ${visible(one.corrected.name)}` : ""}</small></span></td><td class="r" data-label="95% interval">${bounds(one.lower, one.upper)}</td>
      <td data-label="Status"><${Chip} kind=${one.status.startsWith("unreadable") ? "invalid" : one.status}>${visible(one.finished ? one.status : run.state === "running" && one.scored !== undefined ? "running" : one.status)}<//></td>
      <td class="r" data-label="Coverage">${one.finished || !one.planned ? percent(one.coverage) : html`<progress max=${one.planned} value=${one.scored + one.failed} aria-label=${`${one.name}: progress`} /> ${count(one.scored + one.failed)}/${count(one.planned)}`}</td>
      <td class="r" data-label="Cost">${money(one.cost_usd)}</td><td class="r" data-label="Age">${!at ? ago(run.age_seconds) : ""}</td></tr>`)}</tbody>`)}
    </table>${!shown.length && html`<p class="wait">No run fits.</p>`}</section>`;
}
