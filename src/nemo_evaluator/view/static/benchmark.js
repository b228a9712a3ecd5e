// A benchmark on the page of its run: scores, progress, plots, failures, settings.
import { useData } from "./effects.js";
import {
  age,
  asJson,
  bounds,
  count,
  duration,
  further,
  money,
  percent,
  plain,
  visible,
} from "./format.js";
import { html, useEffect, useState } from "./lib.js";
import { link } from "./route.js";
import { source } from "./source.js";
import { Chip, TableHead } from "./widgets.js";

// How often the plots of a running benchmark are drawn anew, in milliseconds.
const REDRAWN = 5000;
const FAILURE_COLUMNS = [["Cause"], ["Rows", "r"], ["Share", "r"], ["Example"]];
const SCORE_COLUMNS = [["Score"], ["Value", "r"], ["95% interval", "r"], ["n", "r"]];

/** The plots of a benchmark, drawn anew while it is running. */
function useFigures(address, isRunning) {
  const { run, bench } = address;
  const [round, setRound] = useState(0);
  const [figures] = useData(signal => source.data("figures", address, signal), [run, bench, round]);
  useEffect(() => {
    if (!isRunning) {
      return undefined;
    }
    const timer = setInterval(() => setRound(number => number + 1), REDRAWN);
    return () => clearInterval(timer);
  }, [isRunning]);
  return figures;
}

/**
 * The section of a benchmark.
 * @param {Object} props `summary` is what its report says, `line` what the list of runs says,
 *   `progress` the rate and the time left of a running one.
 */
export function Benchmark({ run, summary, line, progress, isRunning }) {
  const figures = useFigures({ run, bench: summary.name }, isRunning);
  const rowsLink = query => link(["rows", run, summary.name], query);
  const plots = figures
    ? html`<div class="panels" dangerouslySetInnerHTML=${{ __html: figures.html }} />`
    : html`<p class="wait">Drawing plots …</p>`;
  return html`<section class="benchmark" data-benchmark=${summary.name}>
    <h2>
      <a href=${rowsLink()}><bdi>${visible(summary.title || summary.name)}</bdi></a>${" "}
      <${Chip} kind=${line.status}>${visible(line.status)}<//>
    </h2>
    <${Facts} summary=${summary} line=${line} />
    ${isRunning && html`<${Progress} line=${line} progress=${progress} />`}
    <${Notices} summary=${summary} />
    <${Ways} summary=${summary} rowsLink=${rowsLink} />
    ${plots}
    <${Failures} failures=${summary.failures} rowsLink=${rowsLink} />
    <${Scores} scores=${summary.scores} />
    <${Settings} config=${summary.config} />
  </section>`;
}

/** A score, its name, and its interval. */
function Headline({ value, name, interval, className = "" }) {
  return html`<span class=${`headline${className}`}>
    <b>${plain(value)}</b> ${visible(name)} <i>${interval}</i>
  </span>`;
}

/** A fact that is a name and a value; nothing where there is no value. */
function Fact({ name, value }) {
  return value ? html`<span>${name} <b>${value}</b></span>` : null;
}

/** The scores in one line, and what it took to get them. */
function Facts({ summary, line }) {
  const { corrected } = line;
  const { truncated_share: truncated, unparsed_share: unparsed, runtime } = summary;
  const planned = line.planned ? ` of ${count(line.planned)}` : "";
  const correction =
    corrected &&
    html`<${Headline}
    value=${corrected.value}
    name=${corrected.name}
    interval=${bounds(corrected.ci_lower, corrected.ci_upper)}
    className=" corrected"
  />`;
  return html`<p class="facts">
    <${Headline}
      value=${line.score}
      name=${line.metric || ""}
      interval=${bounds(line.lower, line.upper)}
    />
    ${correction}
    <span>coverage <b>${percent(line.coverage)}</b> (${count(line.scored)}${planned})</span>
    <${Fact} name="truncated" value=${truncated > 0 && percent(truncated)} />
    <${Fact} name="unparsed" value=${unparsed > 0 && percent(unparsed)} />
    ${runtime?.total_tokens && html`<span><b>${count(runtime.total_tokens)}</b> tokens</span>`}
    <${Fact} name="P50" value=${runtime?.p50_ms && duration(runtime.p50_ms)} />
    ${line.cost_usd && html`<span><b>${money(line.cost_usd)}</b></span>`}
  </p>`;
}

/** How far a running benchmark is. */
function Progress({ line, progress }) {
  const done = (line.scored ?? 0) + (line.failed ?? 0);
  const rate = progress?.rate && `${progress.rate.toFixed(1)}/s`;
  const left = progress?.eta_seconds && `${age(progress.eta_seconds)} left`;
  const failed = `${count(line.failed)} failed${further(rate)}${further(left)}`;
  return html`<p class="live" role="status">
    <progress max=${line.planned || undefined} value=${done} aria-label="progress" />${" "}
    <b class="done">${count(done)}</b> of ${count(line.planned)} done, ${failed}
  </p>`;
}

function listItems(texts) {
  return texts.map(text => html`<li>${visible(text)}</li>`);
}

/** Why the scores are not to be used, what is missing, and other notes. */
function Notices({ summary }) {
  const { invalid, missing, notes } = summary;
  const alarm =
    invalid?.length > 0 &&
    html`<div class="alarm box" role="alert">
    <b>Do not use these scores.</b>
    <ul>${listItems(invalid)}</ul>
  </div>`;
  const gaps =
    missing.length > 0 &&
    html`<div class="mind">
    <b>Missing</b>
    <ul>${listItems(missing)}</ul>
  </div>`;
  return html`${alarm}${gaps}${notes.map(note => html`<p class="note">${visible(note)}</p>`)}`;
}

/** Links to the rows, all of them or one kind. */
function Ways({ summary, rowsLink }) {
  // Where rows were drawn for calibration, those are labelled, and blindly.
  const hasDraw = summary.drawn && !source.isExport;
  const review = hasDraw ? { review: "1", blind: "1", label: "drawn" } : { review: "1" };
  const wrong = { max_reward: "0.999", status: "scored" };
  return html`<p class="ways">
    <a class="button main" href=${rowsLink()}>All rows</a>
    <a class="button" href=${rowsLink(wrong)}>Wrong</a>
    <a class="button" href=${rowsLink({ status: "failed" })}>Failed</a>
    <a class="button" href=${rowsLink({ truncated: "1" })}>Truncated</a>
    <a class="button" href=${rowsLink({ unparsed: "1" })}>Unparsed</a>
    <a class="button" href=${rowsLink(review)}>Review</a>
  </p>`;
}

/** The failures by cause, each with an example. */
function Failures({ failures, rowsLink }) {
  if (!failures.length) {
    return null;
  }
  const lines = failures.map(({ cause, count: rows, share, examples }) => {
    return html`<tr>
      <td><a href=${rowsLink({ cause })}>${visible(cause)}</a></td>
      <td class="r">${count(rows)}</td>
      <td class="r">${percent(share)}</td>
      <td class="text">${visible(examples[0] || "")}</td>
    </tr>`;
  });
  return html`<details open>
    <summary>Failures by cause</summary>
    <div class="scroll">
      <table><${TableHead} columns=${FAILURE_COLUMNS} /><tbody>${lines}</tbody></table>
    </div>
  </details>`;
}

/** All scores, where there are more than the headline. */
function Scores({ scores }) {
  if (scores.length < 2) {
    return null;
  }
  const lines = scores.map(score => {
    return html`<tr>
      <td>${visible(score.name)}</td>
      <td class="r">${plain(score.value)}</td>
      <td class="r">${bounds(score.ci_lower, score.ci_upper)}</td>
      <td class="r">${count(score.n)}</td>
    </tr>`;
  });
  return html`<details>
    <summary>All scores</summary>
    <div class="scroll">
      <table><${TableHead} columns=${SCORE_COLUMNS} /><tbody>${lines}</tbody></table>
    </div>
  </details>`;
}

/** The settings of the benchmark. */
function Settings({ config }) {
  if (!Object.keys(config).length) {
    return null;
  }
  return html`<details><summary>Settings</summary><pre>${visible(asJson(config))}</pre></details>`;
}
