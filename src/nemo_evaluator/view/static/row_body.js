// What is known of a row, in two columns: the conversation, and what was made of the answer.
import { useData } from "./effects.js";
import { asJson, asText, count, duration, isMissing, plain, visible } from "./format.js";
import { html, useState } from "./lib.js";
import { Messages } from "./messages.js";
import { link } from "./route.js";
import { factsOf, judgements } from "./row_facts.js";
import { source } from "./source.js";
import { Text } from "./text.js";
import { Timeline } from "./timeline.js";
import { Chip, Verdict } from "./widgets.js";

// Characters of a row that are shown as it was written, and of an answer beside others.
const MOST_AS_WRITTEN = 200_000;
const MOST_BESIDE = 4000;
const MOST_REPEATS_BESIDE = 8;

/**
 * Everything below the head of a row's page.
 * @param {Object} props `data` is what the source says of the row; a blind page keeps the verdict,
 *   and what would give it away, to itself.
 */
export function RowBody({ data, address, isBlind, query }) {
  // Texts know where their rest is: `cut` has the lengths of those that were cut.
  const where = { ...address, cut: data.cut };
  const hasSteps = data.steps.length > 0;
  const hasRepeats = data.repeats.length > 0 && !isBlind;
  const repeats = html`<${Repeats} repeats=${data.repeats} address=${address} query=${query} />`;
  return html`<div class="columns-2">
    <div>
      <section>
        <h2>Sent</h2>
        <${Messages} messages=${data.sent} where=${where} />
      </section>
      <${Answer} data=${data} where=${where} isBlind=${isBlind} />
      ${hasSteps && html`<${Timeline} steps=${data.steps} where=${where} />`}
    </div>
    <div>
      <${Assessment} row=${data.row} facts=${data.facts} isBlind=${isBlind} />
      ${hasRepeats && repeats}
      <${Facts} data=${data} isBlind=${isBlind} />
      <${Commands} commands=${data.commands} />
    </div>
  </div>`;
}

/** The answer, with the reasoning and the error, if there are any. */
function Answer({ data, where, isBlind }) {
  const { row, answer, facts } = data;
  const reasoning = answer.reasoning_content;
  const reasoningLength = where.cut["answer/reasoning_content"] || reasoning?.length;
  const reasoningBox = html`<details class="reasoning">
    <summary>Reasoning (${count(reasoningLength)} characters)</summary>
    <${Text} text=${reasoning} where=${where} path="answer/reasoning_content" label="reasoning" />
  </details>`;
  const error = `${visible(facts.cause)}: ${visible(facts.error)}`;
  return html`<section class="answer">
    <h2>Answer${" "}
      ${facts.truncated && html`<${Chip} kind="truncated">truncated<//>`}${" "}
      ${!isBlind && facts.unparsed && html`<${Chip} kind="unparsed">unparsed<//>`}
    </h2>
    ${facts.cause && !isBlind && html`<pre class="error">${error}</pre>`}
    ${reasoning && reasoningBox}
    <${Text}
      text=${asText(row.model_response ?? "")}
      where=${where}
      path="row/model_response"
      label="answer"
    />
  </section>`;
}

/** Names and values as a list of definitions. */
function Pairs({ pairs }) {
  const entries = pairs.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`);
  return html`<dl class="pairs">${entries}</dl>`;
}

/** The expected and the extracted answer, rewards, what a judge said, and tripwires. */
function Assessment({ row, facts, isBlind }) {
  const { extracted_answer: extracted, scoring_details: details } = row;
  const expectedText = visible(asText(row.expected_answer));
  const extractedText = isMissing(extracted) ? "(nothing)" : visible(asText(extracted));
  const rewards = Object.entries(row.scorer_rewards || {}).map(([name, value]) => {
    return [visible(name), plain(value)];
  });
  const pairs = [
    ["Expected", html`<pre dir="auto">${expectedText}</pre>`],
    ["Extracted", html`<pre dir="auto">${extractedText}</pre>`],
  ];
  const verdictPairs = [["Reward", plain(facts.reward)], ...rewards];
  const reasons = judgements(details || {}).map(([name, reason]) => {
    return html`<h4>${visible(name)}</h4><pre dir="auto" class="judge">${visible(reason)}</pre>`;
  });
  return html`<section>
    <h2>Expected and extracted</h2>
    <${Pairs} pairs=${isBlind ? pairs : [...pairs, ...verdictPairs]} />
    ${!isBlind && reasons}
    ${!isBlind && html`<${Tripwires} tripwires=${details?.tripwires} />`}
  </section>`;
}

/** What looked like an attack on the verdict, each with the words that were seen. */
function Tripwires({ tripwires }) {
  if (!tripwires) {
    return null;
  }
  const items = Object.entries(tripwires).map(([name, seen]) => {
    return html`<li>${visible(name)}: <code>${visible(seen)}</code></li>`;
  });
  return html`<div class="mind"><b>Tripwires</b><ul>${items}</ul></div>`;
}

/** The repeats of a problem, each with its verdict. */
function Repeats({ repeats, address, query }) {
  const lines = repeats.map(row => {
    const href = link(["row", address.run, address.bench, row.problem_idx, row.repeat], query);
    return html`<tr class=${row.repeat === address.repeat ? "chosen" : ""}>
      <td><a href=${href}>repeat ${row.repeat}</a></td>
      <td><${Verdict} row=${row} /></td>
      <td class="r">${plain(row.reward)}</td>
      <td class="r">${count(row.tokens)} tokens</td>
      <td class="r">${duration(row.latency_ms)}</td>
    </tr>`;
  });
  return html`<section>
    <h2>Repeats</h2>
    <table><tbody>${lines}</tbody></table>
    <${SideBySide} address=${address} repeats=${repeats} />
  </section>`;
}

/** The answers of the repeats next to each other; asked for when they are opened. */
function SideBySide({ address, repeats }) {
  const [isOpen, setIsOpen] = useState(false);
  const readRows = async signal => {
    if (!isOpen) {
      return null;
    }
    const shown = repeats.slice(0, MOST_REPEATS_BESIDE);
    const requests = shown.map(({ problem_idx: problem, repeat }) => {
      return source.row({ ...address, problem, repeat }, signal);
    });
    return Promise.all(requests);
  };
  const [rows] = useData(readRows, [isOpen, address.problem]);
  const answers = rows?.map(({ row, facts }) => {
    const answer = String(row.model_response ?? "").slice(0, MOST_BESIDE);
    return html`<div>
      <h4>repeat ${row.repeat} · ${plain(facts.reward)}</h4>
      <pre dir="auto">${visible(answer)}</pre>
    </div>`;
  });
  return html`<details onToggle=${event => setIsOpen(event.target.open)}>
    <summary>Answers side by side</summary>
    ${answers && html`<div class="sides">${answers}</div>`}
  </details>`;
}

/** Model, tokens, times; metadata; the row as it was written. */
function Facts({ data, isBlind }) {
  const { row } = data;
  const facts = factsOf(data, isBlind).map(([name, value]) => [name, visible(value)]);
  const metadata = Object.entries(row.metadata || {}).map(([name, value]) => {
    return html`<dt>${visible(name)}</dt><dd dir="auto">${visible(asText(value))}</dd>`;
  });
  const metadataBox = html`<details open>
    <summary>Metadata</summary>
    <dl class="pairs">${metadata}</dl>
  </details>`;
  return html`<section>
    <h2>Facts</h2>
    <${Pairs} pairs=${facts} />
    ${metadata.length > 0 && metadataBox}
    ${!isBlind && html`<${AsWritten} row=${row} />`}
  </section>`;
}

/** The scoring details and the whole row as JSON. */
function AsWritten({ row }) {
  const details = asJson(row.scoring_details ?? {});
  const whole = asJson(row).slice(0, MOST_AS_WRITTEN);
  return html`
    <details><summary>Scoring details</summary><pre>${visible(details)}</pre></details>
    <details><summary>The row as written</summary><pre>${visible(whole)}</pre></details>`;
}

/** Commands for a terminal that have to do with this row. */
function Commands({ commands }) {
  if (!commands.length) {
    return null;
  }
  const entries = commands.map(({ what, command }) => {
    return html`<h4>${what}</h4><pre class="command" tabindex="0">${visible(command)}</pre>`;
  });
  return html`<section><h2>Commands</h2>${entries}</section>`;
}
