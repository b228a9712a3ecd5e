// The trajectory of an agent: turns, tool calls with what came back, tokens and cost of each; errors one key apart.
import { html, useState, useRef, useMemo, useKeys, count, money, visible, Chip } from "./lib.js";
import { Text } from "./text.js";

const PAGE = 100;
const FAILED = /(exit[_ ]?code\D{0,3}[1-9]|returncode\D{0,3}[1-9]|Traceback \(most recent|\berror\b:|command not found)/i;

function outputs(step) { return step.observation?.results || []; }
function isError(step) { return outputs(step).some(one => one.is_error || (one.exit_code ?? one.extra?.exit_code ?? 0) !== 0 || FAILED.test(String(one.content ?? "").slice(0, 4000))) || Boolean(step.error); }

export function Timeline({ steps, where }) {
  const [most, setMost] = useState(PAGE);
  const [only, setOnly] = useState("all");
  const at = useRef(-1);
  const errors = useMemo(() => steps.map((step, number) => isError(step) ? number : -1).filter(number => number >= 0), [steps]);
  const jump = way => {
    if (!errors.length) return;
    at.current = (at.current + way + errors.length) % errors.length;
    setMost(now => Math.max(now, errors[at.current] + 1)); setOnly("all");
    setTimeout(() => { const found = document.getElementById(`step-${errors[at.current]}`); found?.scrollIntoView({ block: "center" }); found?.focus(); }, 30);
  };
  useKeys({ "]": () => jump(1), "[": () => jump(-1) });
  const shown = steps.map((step, number) => [step, number]).filter(([step]) => only === "all" || (only === "tools" ? step.tool_calls?.length || outputs(step).length : step.source === "agent"));
  const tokens = steps.reduce((sum, step) => sum + (step.metrics?.prompt_tokens || 0) + (step.metrics?.completion_tokens || 0), 0);
  const cost = steps.reduce((sum, step) => sum + (step.metrics?.cost_usd || 0), 0);
  return html`<section class="timeline" aria-label="Trajectory"><h2>Trajectory <small>${count(steps.length)} steps · ${count(tokens)} tokens${cost ? ` · ${money(cost)}` : ""}</small></h2>
    <div class="controls"><select aria-label="Which steps" value=${only} onChange=${event => setOnly(event.target.value)}><option value="all">all steps</option><option value="agent">agent only</option><option value="tools">tool calls only</option></select>
      ${errors.length > 0 && html`<button onClick=${() => jump(-1)}><kbd>[</kbd></button><span>${errors.length} error${errors.length > 1 ? "s" : ""}</span><button class="next-error" onClick=${() => jump(1)}><kbd>]</kbd></button>`}</div>
    <ol>${shown.slice(0, most).map(([step, number]) => html`<${Step} key=${number} step=${step} number=${number} where=${where} failed=${errors.includes(number)} />`)}</ol>
    ${shown.length > most && html`<button onClick=${() => setMost(most + PAGE)}>Show ${Math.min(PAGE, shown.length - most)} more of ${count(shown.length - most)}</button>`}</section>`;
}

function Step({ step, number, where, failed }) {
  const used = step.metrics || {};
  const results = Object.fromEntries(outputs(step).map((one, at) => [one.source_call_id ?? at, [one, at]]));
  const calls = Array.isArray(step.tool_calls) ? step.tool_calls : [];
  const loose = outputs(step).map((one, at) => [one, at]).filter(([one]) => !calls.some(call => call.tool_call_id === one.source_call_id));
  const message = typeof step.message === "string" ? step.message : step.message ? JSON.stringify(step.message) : "";
  return html`<li id=${`step-${number}`} tabindex="-1" class=${`step ${visible(step.source)}${failed ? " failed" : ""}`}>
    <p class="step-head"><b>${Number(String(number).split("/").pop()) + 1}</b> ${visible(step.source || "step")}${step.model_name ? ` · ${visible(step.model_name)}` : ""} ${failed && html`<${Chip} kind="failed">error<//>`}
      <span class="note">${used.prompt_tokens !== undefined ? `${count(used.prompt_tokens)} + ${count(used.completion_tokens)} tokens` : ""}${used.cost_usd ? ` · ${money(used.cost_usd)}` : ""}${step.timestamp ? ` · ${visible(String(step.timestamp).slice(11, 19))}` : ""}</span></p>
    ${step.reasoning_content && html`<details><summary>Reasoning</summary><${Text} text=${String(step.reasoning_content)} where=${where} path=${`steps/${number}/reasoning_content`} markdown=${false} /></details>`}
    ${message && html`<${Text} text=${message} where=${where} path=${`steps/${number}/message`} markdown=${step.source === "agent"} label=${`step ${Number(String(number).split("/").pop()) + 1}`} />`}
    ${calls.map(call => html`<div class="call"><p><code>${visible(call.function_name || "tool")}</code></p><pre>${visible(typeof call.arguments === "string" ? call.arguments : Object.values(call.arguments || {}).length === 1 && typeof Object.values(call.arguments)[0] === "string" ? Object.values(call.arguments)[0] : JSON.stringify(call.arguments, null, 2))}</pre>
      ${results[call.tool_call_id] && html`<${Result} one=${results[call.tool_call_id]} number=${number} where=${where} />`}</div>`)}
    ${loose.map(pair => html`<${Result} one=${pair} number=${number} where=${where} />`)}
    ${(step.subagents || step.children || []).map?.((child, at) => html`<details class="sub"><summary>Sub-session ${at + 1}${child.name ? `: ${visible(child.name)}` : ""}</summary>${Array.isArray(child.steps ?? child.trajectory?.steps)
      ? html`<ol>${(child.steps ?? child.trajectory.steps).slice(0, PAGE).map((inner, deep) => html`<${Step} key=${deep} step=${inner} number=${`${number}/${step.subagents ? "subagents" : "children"}/${at}/${child.steps ? "steps" : "trajectory/steps"}/${deep}`} where=${where} failed=${isError(inner)} />`)}</ol>`
      : html`<pre>${visible(JSON.stringify(child, null, 2).slice(0, 20000))}</pre>`}</details>`)}
  </li>`;
}

function Result({ one: [result, at], number, where }) {
  const code = result.exit_code ?? result.extra?.exit_code;
  const text = typeof result.content === "string" ? result.content : JSON.stringify(result.content ?? "");
  return html`<details class="result" open=${text.length < 1500}><summary>output${code !== undefined ? ` · exit code ${visible(code)}` : ""} · ${count(where.cut[`steps/${number}/observation/results/${at}/content`] || text.length)} characters</summary>
    <${Text} text=${text} where=${where} path=${`steps/${number}/observation/results/${at}/content`} markdown=${false} /></details>`;
}
