// A person's label for a row: right, wrong or unsure, with a note and a name.
import { useKeys } from "./effects.js";
import { count, visible } from "./format.js";
import { html, useEffect, useRef, useState } from "./lib.js";
import { recall, remember } from "./memory.js";
import { source } from "./source.js";
import { Wait } from "./widgets.js";

const NAME_KEY = "nel-who";
// Each label with the key that gives it.
const LABELS = [
  ["right", "1"],
  ["wrong", "2"],
  ["unsure", "3"],
];
const NO_LABEL = "";

/** The number of labelled rows after a label has taken the place of another. */
function countAfter(labelled, earlier, label) {
  const removed = earlier ? 1 : 0;
  const added = label ? 1 : 0;
  return labelled - removed + added;
}

/**
 * The label of a row, as it is and as it is given.
 * @returns {Object} `label`, `error`, `labelled` (the number of rows that have one, null until it
 *   is known), and `give(word, note, who)`, which resolves to whether the label was written.
 */
function useLabel(address, initial) {
  const [label, setLabel] = useState(initial);
  const [labelled, setLabelled] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    const { run, bench } = address;
    // The page can do without the number.
    source.labels({ run, bench }).then(
      labels => setLabelled(labels.length),
      () => setLabelled(null),
    );
  }, [address.problem, address.repeat]);
  const give = async (word, note, who) => {
    try {
      const written = await source.label(address, { label: word, note, who });
      const earlier = label?.label;
      setLabelled(number => (number === null ? null : countAfter(number, earlier, word)));
      setLabel(written);
      setError(null);
      return true;
    } catch (problem) {
      setError(problem);
      return false;
    }
  };
  return { label, labelled, error, give };
}

/** What the label is, whose it is, and how many rows have one. */
function labelText(label, labelled, total) {
  const who = label?.who ? `, ${visible(label.who)}` : "";
  const state = label?.label ? `${label.label}${who}` : "no label";
  if (labelled === null) {
    return state;
  }
  const ofTotal = total ? ` of ${count(total)}` : "";
  return `${state} · ${count(labelled)}${ofTotal} labelled`;
}

/**
 * The bar with which a row is labelled.
 * @param {Object} props `label` is the row's label or null; `onLabelled` is called when a label was
 *   given (not when it was taken back); `total` is the number of rows under review.
 */
export function Review({ address, label: initial, isBlind, onToggleBlind, onLabelled, total }) {
  const { label, labelled, error, give } = useLabel(address, initial);
  const [note, setNote] = useState(initial?.note || "");
  const [who, setWho] = useState(recall(NAME_KEY));
  const noteBox = useRef();
  const choose = async word => {
    const isWritten = await give(word, note, who);
    if (isWritten && word !== NO_LABEL) {
      onLabelled();
    }
  };
  useKeys({
    1: () => choose("right"),
    2: () => choose("wrong"),
    3: () => choose("unsure"),
    0: () => choose(NO_LABEL),
    n: () => noteBox.current.focus(),
    Escape: () => document.activeElement.blur(),
  });
  const finishNote = event => {
    if (event.key === "Enter") {
      choose(label?.label || "unsure");
    }
  };
  const rename = event => {
    setWho(event.target.value);
    remember(NAME_KEY, event.target.value);
  };
  return html`<section class="review" aria-label="Review">
    <span class="choices"><${Choices} chosen=${label?.label} onChoose=${choose} /></span>
    <input
      ref=${noteBox}
      type="text"
      placeholder="Note (n)"
      aria-label="Note"
      value=${note}
      onInput=${event => setNote(event.target.value)}
      onKeyDown=${finishNote}
    />
    <input
      type="text"
      class="who"
      placeholder="Your name"
      aria-label="Your name"
      value=${who}
      onInput=${rename}
    />
    <label><input type="checkbox" checked=${isBlind} onChange=${onToggleBlind} /> blind</label>
    <span class="note" role="status">${labelText(label, labelled, total)}</span>
    ${error && html`<${Wait} error=${error} />`}
  </section>`;
}

/** A button for each label. */
function Choices({ chosen, onChoose }) {
  return LABELS.map(([word, sign]) => {
    return html`<button
      class=${word}
      aria-pressed=${chosen === word}
      onClick=${() => onChoose(word)}
    ><kbd>${sign}</kbd> ${word}</button>`;
  });
}
