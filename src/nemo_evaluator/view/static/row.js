// The page of one row: what was sent, what came back, what was made of it; and a person's label.
import { useData, useKeys } from "./effects.js";
import { count } from "./format.js";
import { html } from "./lib.js";
import { Review } from "./review.js";
import { go, replace } from "./route.js";
import { RowBody } from "./row_body.js";
import { rowsQuery } from "./rows_query.js";
import { source } from "./source.js";
import { Verdict, Wait } from "./widgets.js";

/**
 * The place of a row among those of the table that led to it.
 * @returns {Object} `position` (null where no table did), `total` (null until it is known), and
 *   `move(step)`, which goes to the row so many places further.
 */
function usePosition(address, query) {
  const { run, bench } = address;
  const position = query.at === undefined ? null : Number(query.at);
  const wanted = rowsQuery(query);
  const countRows = async signal => {
    if (position === null) {
      return null;
    }
    const found = await source.rows({ run, bench }, wanted, { offset: 0, limit: 1, signal });
    return found.total;
  };
  const [total] = useData(countRows, [run, bench, JSON.stringify(wanted)]);
  const move = async step => {
    if (position === null || position + step < 0) {
      return;
    }
    const next = { offset: position + step, limit: 1 };
    const found = await source.rows({ run, bench }, wanted, next);
    const [row] = found.rows;
    if (row) {
      go(["row", run, bench, row.problem_idx, row.repeat], { ...query, at: next.offset });
    }
  };
  return { position, total, move };
}

/**
 * Whether data is that of a row: while the next row is asked for, the last one's is still there.
 */
function isOf(data, address) {
  const { problem_idx: problem, repeat } = data.row;
  return problem === address.problem && (repeat ?? 0) === address.repeat;
}

/** The page. */
export function Row({ words: [, run, bench, problem, repeat], query }) {
  const address = { run, bench, problem: Number(problem), repeat: Number(repeat) };
  const inputs = [run, bench, problem, repeat];
  const [data, error] = useData(signal => source.row(address, signal), inputs);
  const { position, total, move } = usePosition(address, query);
  const isBlind = query.blind === "1";
  const toggleBlind = () => {
    const blind = isBlind ? "" : "1";
    replace(["row", run, bench, problem, repeat], { ...query, blind });
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowRight: () => move(1),
    ArrowLeft: () => move(-1),
    b: toggleBlind,
  });
  if (!data || !isOf(data, address)) {
    return html`<${Wait} error=${error} />`;
  }
  const repeatName = repeat !== "0" ? ` · repeat ${repeat}` : "";
  const review = html`<${Review}
    key=${`${problem}/${repeat}`}
    address=${address}
    label=${data.label}
    isBlind=${isBlind}
    onToggleBlind=${toggleBlind}
    onLabelled=${() => query.review && move(1)}
    total=${total}
  />`;
  const verdict = html`<${Verdict} row=${data.facts} />`;
  return html`
    <h1>Problem ${problem}${repeatName} ${!isBlind && verdict}</h1>
    ${position !== null && html`<${Pager} position=${position} total=${total} move=${move} />`}
    ${!source.isExport && review}
    <${RowBody} data=${data} address=${address} isBlind=${isBlind} query=${query} />`;
}

/** Where this row is among those of the table, with the ways to its neighbours. */
function Pager({ position, total, move }) {
  const ofTotal = total ? ` of ${count(total)}` : "";
  const isLast = total !== null && position + 1 >= total;
  return html`<p class="pager">
    <button onClick=${() => move(-1)} disabled=${position === 0}>← Previous</button>
    <span role="status">${count(position + 1)}${ofTotal}</span>
    <button onClick=${() => move(1)} disabled=${isLast}>Next →</button>
  </p>`;
}
