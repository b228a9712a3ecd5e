// Runs side by side: the verdict of `nel compare`, what flipped, what differs.
import { useData } from "./effects.js";
import { Flips } from "./flips.js";
import { count, isMissing, pathEnd, plain, signed, visible } from "./format.js";
import { html, useState } from "./lib.js";
import { link } from "./route.js";
import { source } from "./source.js";
import { ComparisonVerdict, TableHead, Wait } from "./widgets.js";

const SIDES = ["baseline", "candidate"];
const SIDE_COLUMNS = [[""], ["Model"], ["Score", "r"], ["Problems", "r"], ["Failed", "r"]];
const DIFFERENCE_COLUMNS = [["Kind"], ["Setting"], ["Baseline"], ["Candidate"]];

/** The page. */
export function Compare({ words: [, keys] }) {
  const request = signal => source.compare(keys.split(","), signal);
  const [comparison, error] = useData(request, [keys]);
  const [tab, setTab] = useState(0);
  if (!comparison) {
    return html`<h1>Compare</h1><${Wait} error=${error} text="Comparing …" />`;
  }
  const { entries, verdict, warnings } = comparison;
  const entry = entries[tab];
  const hasTabs = entries.length > 1;
  const scope = hasTabs ? `the worst of ${entries.length}` : visible(entry.benchmark);
  return html`
    <h1><${ComparisonVerdict} verdict=${verdict} /> <small>${scope}</small></h1>
    <${Warnings} texts=${warnings} />
    ${hasTabs && html`<${Tabs} entries=${entries} selected=${tab} onSelect=${setTab} />`}
    <${Entry} key=${tab} entry=${entry} />`;
}

/** What a reader is to mind. */
function Warnings({ texts }) {
  return (texts || []).map(text => html`<p class="mind">${visible(text)}</p>`);
}

/** A tab for each benchmark of each candidate. */
function Tabs({ entries, selected, onSelect }) {
  const tabs = entries.map((entry, position) => {
    const name = `${visible(entry.benchmark)} · ${visible(pathEnd(entry.candidate))}`;
    return html`<button
      role="tab"
      aria-selected=${position === selected}
      onClick=${() => onSelect(position)}
    >${name} <${ComparisonVerdict} verdict=${entry.report.verdict} /></button>`;
  });
  return html`<div class="tabs" role="tablist">${tabs}</div>`;
}

/** The comparison of a benchmark in two runs. */
function Entry({ entry }) {
  const { report } = entry;
  const reasons = report.verdict_reasons.map(
    reason => html`<p class="note">${visible(reason)}</p>`,
  );
  return html`
    <section>
      <h2>
        <bdi>${visible(entry.benchmark)}</bdi>${" "}
        <${ComparisonVerdict} verdict=${report.verdict} className="chip " />
      </h2>
      <${Facts} report=${report} />
      <${Sides} entry=${entry} />
      ${reasons}
      <${Warnings} texts=${report.warnings} />
    </section>
    ${report.flip_report && html`<${Flips} entry=${entry} />`}
    <section>
      <h2>Plots</h2>
      <div class="panels" dangerouslySetInnerHTML=${{ __html: entry.figures }} />
    </section>
    <section>
      <h2>Settings that differ</h2>
      <${ConfigDifferences} differences=${report.config_differences} />
    </section>
    <${Shifts} shifts=${report.shifts} />`;
}

/** The difference with its interval, the number of pairs, and the limit. */
function Facts({ report }) {
  const { difference, pairing, relation, threshold } = report;
  const { ci_lower: low, ci_upper: high } = difference;
  const interval = isMissing(low) ? "" : `[${signed(low)}, ${signed(high)}]`;
  return html`<p class="facts">
    <span class="headline">
      <b>${signed(difference.value)}</b> <i>${interval}</i> ${visible(relation)}
    </span>
    <span>${count(pairing.paired)} paired by ${pairing.by}</span>
    <span>limit ${threshold}</span>
  </p>`;
}

/** The two runs, one line each. */
function Sides({ entry }) {
  const lines = SIDES.map((name, position) => {
    const side = entry.report[name];
    const key = entry.keys?.[position];
    const model = visible(side.config.model || side.run_id);
    return html`<tr>
      <td>${name}</td>
      <td>${key ? html`<a href=${link(["run", key])}>${model}</a>` : model}</td>
      <td class="r">${plain(side.score.value)}</td>
      <td class="r">${count(side.problems)}</td>
      <td class="r">${count(side.failed_rows)}</td>
    </tr>`;
  });
  return html`<table><${TableHead} columns=${SIDE_COLUMNS} /><tbody>${lines}</tbody></table>`;
}

/** The settings that are not the same in both runs. */
function ConfigDifferences({ differences }) {
  if (!differences.length) {
    return html`<p class="note">None, apart from the model and its address.</p>`;
  }
  const lines = differences.map(({ kind, what, baseline, candidate }) => {
    return html`<tr>
      <td>${kind}</td>
      <td>${visible(what)}</td>
      <td class="text">${visible(JSON.stringify(baseline))}</td>
      <td class="text">${visible(JSON.stringify(candidate))}</td>
    </tr>`;
  });
  return html`<div class="scroll">
    <table><${TableHead} columns=${DIFFERENCE_COLUMNS} /><tbody>${lines}</tbody></table>
  </div>`;
}

/** Other metrics of both runs. */
function Shifts({ shifts }) {
  if (!shifts.length) {
    return null;
  }
  const lines = shifts.map(({ name, baseline, candidate, unit }) => {
    return html`<tr>
      <td>${visible(name.replaceAll("_", " "))}</td>
      <td class="r">${plain(baseline)}</td>
      <td class="r">${plain(candidate)}</td>
      <td>${visible(unit || "")}</td>
    </tr>`;
  });
  return html`<section>
    <h2>Other metrics</h2>
    <div class="scroll"><table><tbody>${lines}</tbody></table></div>
  </section>`;
}
