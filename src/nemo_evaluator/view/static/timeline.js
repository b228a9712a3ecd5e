// The trajectory of an agent: its steps, in parts if there are many; errors are one key apart.
import { useKeys } from "./effects.js";
import { count, further, money } from "./format.js";
import { html, useMemo, useRef, useState } from "./lib.js";
import { isFailedStep, resultsOf, Step } from "./step.js";

const PAGE = 100;
// Until a step that has just been added is on the page, in milliseconds.
const DRAWN = 30;
const CHOICES = [
  ["all", "all steps"],
  ["agent", "agent only"],
  ["tools", "tool calls only"],
];

function usesTools(step) {
  return Boolean(step.tool_calls?.length || resultsOf(step).length);
}

const TESTS = {
  all: () => true,
  agent: step => step.source === "agent",
  tools: usesTools,
};

/** The numbers of the steps that failed. */
function failedNumbers(steps) {
  const numbers = steps.map((_, number) => number);
  return numbers.filter(number => isFailedStep(steps[number]));
}

/** The sum of a metric over all steps. */
function total(steps, metric) {
  return steps.reduce((sum, step) => sum + (step.metrics?.[metric] || 0), 0);
}

/** Brings a step into view and gives it the focus. */
function focusStep(number) {
  const element = document.getElementById(`step-${number}`);
  element?.scrollIntoView({ block: "center" });
  element?.focus();
}

/** The trajectory; `where` is the address of the row, with the lengths of texts that were cut. */
export function Timeline({ steps, where }) {
  const [most, setMost] = useState(PAGE);
  const [choice, setChoice] = useState("all");
  const errorIndex = useRef(-1);
  const failed = useMemo(() => failedNumbers(steps), [steps]);
  const jump = direction => {
    if (!failed.length) {
      return;
    }
    errorIndex.current = (errorIndex.current + direction + failed.length) % failed.length;
    const number = failed[errorIndex.current];
    setMost(earlier => Math.max(earlier, number + 1));
    setChoice("all");
    setTimeout(() => focusStep(number), DRAWN);
  };
  useKeys({ "]": () => jump(1), "[": () => jump(-1) });
  const numbers = steps.map((_, number) => number);
  const chosen = numbers.filter(number => TESTS[choice](steps[number]));
  const shown = chosen.slice(0, most).map(number => {
    return html`<${Step}
      key=${number}
      step=${steps[number]}
      path=${String(number)}
      where=${where}
    />`;
  });
  const hidden = chosen.length - most;
  const moreButton = html`<button onClick=${() => setMost(most + PAGE)}>
    Show ${Math.min(PAGE, hidden)} more of ${count(hidden)}
  </button>`;
  return html`<section class="timeline" aria-label="Trajectory">
    <h2>Trajectory <small><${Totals} steps=${steps} /></small></h2>
    <div class="controls">
      <${StepChoice} value=${choice} onChange=${setChoice} />
      ${failed.length > 0 && html`<${ErrorButtons} errors=${failed.length} onJump=${jump} />`}
    </div>
    <ol>${shown}</ol>
    ${hidden > 0 && moreButton}
  </section>`;
}

/** The number of steps, their tokens and what they cost. */
function Totals({ steps }) {
  const tokens = total(steps, "prompt_tokens") + total(steps, "completion_tokens");
  const cost = total(steps, "cost_usd");
  const costText = cost ? money(cost) : "";
  return `${count(steps.length)} steps · ${count(tokens)} tokens${further(costText)}`;
}

/** Which steps are shown. */
function StepChoice({ value, onChange }) {
  const options = CHOICES.map(([name, title]) => html`<option value=${name}>${title}</option>`);
  return html`<select
    aria-label="Which steps"
    value=${value}
    onChange=${event => onChange(event.target.value)}
  >${options}</select>`;
}

/** The number of errors, between the ways to the one before and the one after. */
function ErrorButtons({ errors, onJump }) {
  const noun = errors > 1 ? "errors" : "error";
  return html`
    <button onClick=${() => onJump(-1)}><kbd>[</kbd></button>
    <span>${errors} ${noun}</span>
    <button class="next-error" onClick=${() => onJump(1)}><kbd>]</kbd></button>`;
}
