// A step of a trajectory: what was said, tools that were called with what came back, and sub-
// sessions.
import { asJson, asText, count, further, money, visible } from "./format.js";
import { html } from "./lib.js";
import { Text } from "./text.js";
import { Chip } from "./widgets.js";

// What a failed command says, where its exit code is not known.
const FAILURE = new RegExp(
  [
    "exit[_ ]?code\\D{0,3}[1-9]",
    "returncode\\D{0,3}[1-9]",
    "Traceback \\(most recent",
    "\\berror\\b:",
    "command not found",
  ].join("|"),
  "i",
);
// Characters of an output in which a failure is looked for.
const MOST_SEARCHED = 4000;
// Longer outputs are closed at first.
const MOST_OPEN = 1500;
const MOST_INNER_STEPS = 100;
const MOST_OF_A_SUB_SESSION = 20_000;
// The hours, minutes and seconds of a timestamp.
const CLOCK = [11, 19];

/** What came back from the tools of a step. */
export function resultsOf(step) {
  return step.observation?.results || [];
}

function exitCode(result) {
  return result.exit_code ?? result.extra?.exit_code;
}

function isFailedResult(result) {
  if (result.is_error || (exitCode(result) ?? 0) !== 0) {
    return true;
  }
  const output = String(result.content ?? "");
  return FAILURE.test(output.slice(0, MOST_SEARCHED));
}

/** Whether a step, or a tool that it called, failed. */
export function isFailedStep(step) {
  return Boolean(step.error) || resultsOf(step).some(isFailedResult);
}

/**
 * The number of a step among its siblings, from 1 on, by its path: the last word of it counts from
 * 0.
 */
function stepNumber(path) {
  return Number(path.split("/").pop()) + 1;
}

/**
 * A step.
 * @param {Object} props `path` leads to the step from the list of steps: its number, or for a step
 *   of a sub-session also those around it; `where` is the address of the row, with the lengths of
 *   cut texts.
 */
export function Step({ step, path, where }) {
  const failed = isFailedStep(step);
  const failedClass = failed ? " failed" : "";
  const message = step.message ? asText(step.message) : "";
  const subSessions = html`<${SubSessions} step=${step} path=${path} where=${where} />`;
  return html`<li
    id=${`step-${path}`}
    tabindex="-1"
    class=${`step ${visible(step.source)}${failedClass}`}
  >
    <${StepHead} step=${step} number=${stepNumber(path)} failed=${failed} />
    ${step.reasoning_content && html`<${Reasoning} step=${step} path=${path} where=${where} />`}
    ${
      message &&
      html`<${Text}
      text=${message}
      where=${where}
      path=${`steps/${path}/message`}
      markdown=${step.source === "agent"}
      label=${`step ${stepNumber(path)}`}
    />`
    }
    <${ToolCalls} step=${step} path=${path} where=${where} />
    ${subSessions}
  </li>`;
}

/** Number, source and model of a step; its tokens, cost and time. */
function StepHead({ step, number, failed }) {
  const {
    prompt_tokens: prompt,
    completion_tokens: completion,
    cost_usd: cost,
  } = step.metrics || {};
  const name = visible(step.source || "step") + further(visible(step.model_name));
  const tokens = prompt === undefined ? "" : `${count(prompt)} + ${count(completion)} tokens`;
  const costText = cost ? money(cost) : "";
  const time = step.timestamp ? visible(String(step.timestamp).slice(...CLOCK)) : "";
  return html`<p class="step-head">
    <b>${number}</b> ${name}${" "}
    ${failed && html`<${Chip} kind="failed">error<//>`}
    <span class="note">${tokens}${further(costText)}${further(time)}</span>
  </p>`;
}

/** The reasoning of a step. */
function Reasoning({ step, path, where }) {
  return html`<details>
    <summary>Reasoning</summary>
    <${Text}
      text=${String(step.reasoning_content)}
      where=${where}
      path=${`steps/${path}/reasoning_content`}
      markdown=${false}
    />
  </details>`;
}

/**
 * The tool calls of a step, each with what came back, then what came back from no call that is
 * known.
 */
function ToolCalls({ step, path, where }) {
  const calls = Array.isArray(step.tool_calls) ? step.tool_calls : [];
  const callIds = new Set(calls.map(call => call.tool_call_id));
  const results = resultsOf(step);
  const resultBox = (result, position) => html`<${Result}
    result=${result}
    where=${where}
    path=${`steps/${path}/observation/results/${position}/content`}
  />`;
  const boxes = {};
  const looseBoxes = [];
  for (const [position, result] of results.entries()) {
    const callId = result.source_call_id;
    const box = resultBox(result, position);
    if (callIds.has(callId)) {
      boxes[callId] = box;
    } else {
      looseBoxes.push(box);
    }
  }
  const callBoxes = calls.map(
    call => html`<div class="call">
    <p><code>${visible(call.function_name || "tool")}</code></p>
    <pre>${visible(argumentText(call.arguments))}</pre>
    ${boxes[call.tool_call_id]}
  </div>`,
  );
  return html`${callBoxes}${looseBoxes}`;
}

/** The arguments of a call: a single text as it is, everything else as JSON. */
function argumentText(callArguments) {
  if (typeof callArguments === "string") {
    return callArguments;
  }
  const values = Object.values(callArguments || {});
  const [first] = values;
  const isSingleText = values.length === 1 && typeof first === "string";
  return isSingleText ? first : asJson(callArguments);
}

/** What came back from a tool. */
function Result({ result, path, where }) {
  const code = exitCode(result);
  const codeText = code === undefined ? "" : `exit code ${visible(code)}`;
  const text = asText(result.content ?? "");
  const length = where.cut[path] || text.length;
  return html`<details class="result" open=${text.length < MOST_OPEN}>
    <summary>output${further(codeText)} · ${count(length)} characters</summary>
    <${Text} text=${text} where=${where} path=${path} markdown=${false} />
  </details>`;
}

/** The sessions that a step started, closed at first. */
function SubSessions({ step, path, where }) {
  const field = step.subagents ? "subagents" : "children";
  const sessions = step[field];
  if (!Array.isArray(sessions)) {
    return null;
  }
  return sessions.map((session, position) => {
    const name = session.name ? `: ${visible(session.name)}` : "";
    const sessionPath = `${path}/${field}/${position}`;
    return html`<details class="sub">
      <summary>Sub-session ${position + 1}${name}</summary>
      <${InnerSteps} session=${session} path=${sessionPath} where=${where} />
    </details>`;
  });
}

/** The steps of a sub-session; one without any is shown as JSON. */
function InnerSteps({ session, path, where }) {
  const steps = session.steps ?? session.trajectory?.steps;
  if (!Array.isArray(steps)) {
    return html`<pre>${visible(asJson(session).slice(0, MOST_OF_A_SUB_SESSION))}</pre>`;
  }
  const field = session.steps ? "steps" : "trajectory/steps";
  const items = steps.slice(0, MOST_INNER_STEPS).map((step, position) => {
    return html`<${Step}
      key=${position}
      step=${step}
      path=${`${path}/${field}/${position}`}
      where=${where}
    />`;
  });
  return html`<ol>${items}</ol>`;
}
