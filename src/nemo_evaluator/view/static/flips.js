// Problems that one run got right and the other one wrong, each with both answers.
import { Difference } from "./difference.js";
import { useData, useKeys } from "./effects.js";
import { count, further, plain, visible } from "./format.js";
import { html, useState } from "./lib.js";
import { link } from "./route.js";
import { source } from "./source.js";
import { Text } from "./text.js";

const KINDS = [
  ["regressions", "got worse"],
  ["improvements", "got better"],
];

/** The flips of a comparison, one at a time. */
export function Flips({ entry }) {
  const report = entry.report.flip_report;
  const [kind, setKind] = useState("regressions");
  const [position, setPosition] = useState(0);
  const flips = report[kind];
  const lastPosition = flips.length - 1;
  const showNext = () => setPosition(Math.min(lastPosition, position + 1));
  const showPrevious = () => setPosition(Math.max(0, position - 1));
  useKeys({ j: showNext, k: showPrevious });
  const choose = name => {
    setKind(name);
    setPosition(0);
  };
  const tabs = KINDS.map(([name, title]) => {
    const total = report.summary?.[`n_${name}`];
    return html`<button role="tab" aria-selected=${kind === name} onClick=${() => choose(name)}>
      ${count(total)} ${title}
    </button>`;
  });
  const flip = flips[Math.min(position, lastPosition)];
  return html`<section class="flips">
    <h2>Flips</h2>
    <div class="tabs" role="tablist">${tabs}</div>
    ${!flip && html`<p class="note">None.</p>`}
    ${
      flip &&
      html`
      <p class="pager">
        <button onClick=${showPrevious} disabled=${position === 0}>←</button>
        <span role="status">${position + 1} of ${count(flips.length)}</span>
        <button onClick=${showNext} disabled=${position >= lastPosition}>→</button>
      </p>
      <${Flip} key=${kind + position} flip=${flip} entry=${entry} />`
    }
  </section>`;
}

/** What a flip says of the baseline and of the candidate. */
function sidesOf(flip) {
  return [
    {
      name: "baseline",
      problem: flip.problem_idx,
      repeat: flip.repeat,
      reward: flip.baseline_reward,
      extracted: flip.baseline_answer,
      response: flip.baseline_response,
    },
    {
      name: "candidate",
      problem: flip.candidate_problem_idx,
      repeat: flip.candidate_repeat,
      reward: flip.candidate_reward,
      extracted: flip.candidate_answer,
      response: flip.candidate_response,
    },
  ];
}

/**
 * The addresses of the rows of both sides; null for a side whose run is not among those that are
 * shown.
 */
function addressesOf(sides, entry) {
  return sides.map(({ problem, repeat }, position) => {
    const run = entry.keys?.[position];
    return run ? { run, bench: entry.folders[position], problem, repeat } : null;
  });
}

/** The whole answers of both sides; a flip by itself has only their beginnings. */
function useResponses(sides, addresses, flip) {
  const readRows = async signal => {
    if (!addresses.every(Boolean)) {
      return null;
    }
    return Promise.all(addresses.map(address => source.row(address, signal)));
  };
  const [pages] = useData(readRows, [flip]);
  if (!pages) {
    return sides.map(side => side.response);
  }
  return pages.map(page => String(page.row.model_response ?? ""));
}

/** A flip: the problem, both answers, and what differs between them. */
function Flip({ flip, entry }) {
  const sides = sidesOf(flip);
  const addresses = addressesOf(sides, entry);
  const responses = useResponses(sides, addresses, flip);
  const [before, after] = responses;
  const category = further(visible(flip.category));
  const expected = visible(flip.expected_answer);
  const boxes = sides.map(
    (side, position) => html`<${Side}
    side=${side}
    address=${addresses[position]}
    response=${responses[position]}
  />`,
  );
  return html`
    <h3>
      Problem ${flip.problem_idx}${category} <small>expected ${expected}</small>
    </h3>
    <${Text} text=${flip.prompt} markdown=${false} label="prompt" />
    <div class="sides">${boxes}</div>
    <h4>Word by word</h4>
    <${Difference} before=${before} after=${after} />`;
}

/** The answer of one side, with its reward and a link to its row. */
function Side({ side, address, response }) {
  const { name, problem, repeat, reward } = side;
  const extracted = side.extracted === null ? "" : ` · ${visible(side.extracted)}`;
  const rowLink =
    address &&
    html`${" · "}<a
    href=${link(["row", address.run, address.bench, problem, repeat])}
  >row</a>`;
  return html`<div>
    <h4>${name} · ${plain(reward)}${extracted}${rowLink}</h4>
    <pre dir="auto" tabindex="0">${visible(response)}</pre>
  </div>`;
}
