// Runs side by side: the verdict of `nel compare`, what flipped, what differs.
import { html, useState, useData, useKeys, link, plain, percent, count, visible, Chip, Wait } from "./lib.js";
import * as source from "./source.js";
import { Diff, Text } from "./text.js";

export function Compare({ words: [, keys] }) {
  const [found, error] = useData(signal => source.compare(keys.split(","), signal), [keys]);
  const [tab, setTab] = useState(0);
  if (!found) return html`<h1>Compare</h1><${Wait} error=${error} text="Comparing …" />`;
  const entry = found.entries[tab];
  return html`<h1><span class=${"verdict " + found.verdict}>${found.verdict}</span> <small>${found.entries.length > 1 ? `the worst of ${found.entries.length}` : visible(entry.benchmark)}</small></h1>
    ${found.warnings.map(said => html`<p class="mind">${visible(said)}</p>`)}
    ${found.entries.length > 1 && html`<div class="tabs" role="tablist">${found.entries.map((one, at) => html`<button role="tab" aria-selected=${at === tab} onClick=${() => setTab(at)}>${visible(one.benchmark)} · ${visible(one.candidate.split("/").slice(-2).join("/"))} <span class=${"verdict " + one.report.verdict}>${one.report.verdict}</span></button>`)}</div>`}
    <${Pair} key=${tab} entry=${entry} />`;
}

const signed = value => value === null || value === undefined ? "–" : (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(4);

function Pair({ entry }) {
  const { report } = entry, flips = report.flip_report, summary = flips?.summary || {};
  const sides = ["baseline", "candidate"].map(name => report[name]);
  return html`<section><h2><bdi>${visible(entry.benchmark)}</bdi> <span class=${"chip verdict " + report.verdict}>${report.verdict}</span></h2>
      <p class="facts"><span class="headline"><b>${signed(report.difference.value)}</b> <i>${report.difference.ci_lower !== null && report.difference.ci_lower !== undefined ? `[${signed(report.difference.ci_lower)}, ${signed(report.difference.ci_upper)}]` : ""}</i> ${visible(report.relation)}</span>
        <span>${count(report.pairing.paired)} paired by ${report.pairing.by}</span><span>limit ${report.threshold}</span></p>
      <table><thead><tr><th scope="col"></th><th scope="col">Model</th><th scope="col" class="r">Score</th><th scope="col" class="r">Problems</th><th scope="col" class="r">Failed</th></tr></thead><tbody>
        ${sides.map((side, at) => html`<tr><td>${["baseline", "candidate"][at]}</td><td>${entry.keys?.[at] ? html`<a href=${link(["run", entry.keys[at]])}>${visible(side.config.model || side.run_id)}</a>` : visible(side.config.model || side.run_id)}</td><td class="r">${plain(side.score.value)}</td><td class="r">${count(side.problems)}</td><td class="r">${count(side.failed_rows)}</td></tr>`)}</tbody></table>
      ${report.verdict_reasons.map(said => html`<p class="note">${visible(said)}</p>`)}${(report.warnings || []).map(said => html`<p class="mind">${visible(said)}</p>`)}</section>
    ${flips && html`<${Flips} entry=${entry} flips=${flips} summary=${summary} />`}
    <section><h2>Plots</h2><div class="panels" dangerouslySetInnerHTML=${{ __html: entry.figures }} /></section>
    <section><h2>Settings that differ</h2>${report.config_differences.length ? html`<div class="scroll"><table><thead><tr><th scope="col">Kind</th><th scope="col">Setting</th><th scope="col">Baseline</th><th scope="col">Candidate</th></tr></thead><tbody>
      ${report.config_differences.map(one => html`<tr><td>${one.kind}</td><td>${visible(one.what)}</td><td class="text">${visible(JSON.stringify(one.baseline))}</td><td class="text">${visible(JSON.stringify(one.candidate))}</td></tr>`)}</tbody></table></div>` : html`<p class="note">None, apart from the model and its address.</p>`}</section>
    ${report.shifts.length > 0 && html`<section><h2>Other metrics</h2><div class="scroll"><table><tbody>${report.shifts.map(one => html`<tr><td>${visible(one.name.replaceAll("_", " "))}</td><td class="r">${plain(one.baseline)}</td><td class="r">${plain(one.candidate)}</td><td>${visible(one.unit || "")}</td></tr>`)}</tbody></table></div></section>`}`;
}

function Flips({ entry, flips, summary }) {
  const [kind, setKind] = useState("regressions");
  const [at, setAt] = useState(0);
  const list = flips[kind];
  useKeys({ j: () => setAt(Math.min(list.length - 1, at + 1)), k: () => setAt(Math.max(0, at - 1)) });
  const flip = list[Math.min(at, list.length - 1)];
  return html`<section class="flips"><h2>Flips</h2><div class="tabs" role="tablist">
      ${[["regressions", "got worse", summary.n_regressions], ["improvements", "got better", summary.n_improvements]].map(([name, title, n]) => html`<button role="tab" aria-selected=${kind === name} onClick=${() => { setKind(name); setAt(0); }}>${count(n)} ${title}</button>`)}</div>
    ${flip ? html`<p class="pager"><button onClick=${() => setAt(Math.max(0, at - 1))} disabled=${at === 0}>←</button> <span role="status">${at + 1} of ${count(list.length)}</span> <button onClick=${() => setAt(Math.min(list.length - 1, at + 1))} disabled=${at + 1 >= list.length}>→</button></p><${Flip} key=${kind + at} flip=${flip} entry=${entry} />` : html`<p class="note">None.</p>`}</section>`;
}

function Flip({ flip, entry }) {
  const rows = [[flip.problem_idx, flip.repeat], [flip.candidate_problem_idx, flip.candidate_repeat]];
  const [whole] = useData(signal => entry.keys?.every(Boolean) ? Promise.all(rows.map(([problem, repeat], at) => source.row(entry.keys[at], entry.folders[at], problem, repeat, signal))) : Promise.resolve(null), [flip]);
  const [before, after] = whole ? whole.map(one => String(one.row.model_response ?? "")) : [flip.baseline_response, flip.candidate_response];
  return html`<h3>Problem ${flip.problem_idx}${flip.category ? ` · ${visible(flip.category)}` : ""} <small>expected ${visible(flip.expected_answer)}</small></h3>
    <${Text} text=${flip.prompt} markdown=${false} label="prompt" />
    <div class="sides">${[[flip.baseline_reward, before, flip.baseline_answer], [flip.candidate_reward, after, flip.candidate_answer]].map(([reward, text, extracted], at) => html`<div><h4>${["baseline", "candidate"][at]} · ${plain(reward)}${extracted !== null ? ` · ${visible(extracted)}` : ""}
      ${entry.keys?.[at] ? html` · <a href=${link(["row", entry.keys[at], entry.folders[at], ...rows[at]])}>row</a>` : ""}</h4><pre dir="auto" tabindex="0">${visible(text)}</pre></div>`)}</div>
    <h4>Word by word</h4><${Diff} before=${before} after=${after} />`;
}
