// One row: what was sent, what came back, what was made of it; and a person's label.
import { html, useState, useEffect, useRef, useData, useKeys, link, go, plain, count, money, ms, visible, Chip, Wait, verdictOf } from "./lib.js";
import * as source from "./source.js";
import { Text, Messages } from "./text.js";
import { Timeline } from "./timeline.js";
import { asked } from "./rows.js";

const KEYS = { right: "1", wrong: "2", unsure: "3" };
const kept = name => { try { return localStorage.getItem(name) || ""; } catch { return ""; } };
const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* a browser that keeps nothing */ } };

export function Row({ words: [, key, bench, problem, repeat], query }) {
  const where = { key, bench, problem: Number(problem), repeat: Number(repeat) };
  const [data, error] = useData(signal => source.row(key, bench, where.problem, where.repeat, signal), [key, bench, problem, repeat]);
  const at = query.at === undefined ? null : Number(query.at);
  const move = async step => {
    if (at === null || at + step < 0) return;
    const found = await source.rows(key, bench, asked(query), at + step, 1);
    if (found.rows[0]) go(["row", key, bench, found.rows[0].problem_idx, found.rows[0].repeat], { ...query, at: at + step });
  };
  const [total] = useData(signal => at === null ? Promise.resolve(null) : source.rows(key, bench, asked(query), 0, 1, signal).then(found => found.total), [key, bench, JSON.stringify(asked(query))]);
  const blind = query.blind === "1";
  const toggle = () => go(["row", key, bench, problem, repeat], { ...query, blind: blind ? "" : "1" }, true);
  useKeys({ j: () => move(1), k: () => move(-1), ArrowRight: () => move(1), ArrowLeft: () => move(-1), b: toggle });
  if (!data || data.row.problem_idx !== where.problem || (data.row.repeat ?? 0) !== where.repeat) return html`<${Wait} error=${error} />`;
  return html`<h1>Problem ${problem}${repeat !== "0" ? ` · repeat ${repeat}` : ""} ${!blind && html`<${Chip} kind=${verdictOf({ ...data.facts, cause: data.facts.cause })}>${data.facts.cause || verdictOf(data.facts)}<//>`}</h1>
    ${at !== null && html`<p class="pager"><button onClick=${() => move(-1)} disabled=${at === 0}>← Previous</button> <span role="status">${count(at + 1)}${total ? ` of ${count(total)}` : ""}</span> <button onClick=${() => move(1)} disabled=${total !== null && at + 1 >= total}>Next →</button></p>`}
    ${!source.exported() && html`<${Review} key=${problem + "/" + repeat} where=${where} label=${data.label} blind=${blind} toggle=${toggle} next=${() => move(1)} review=${query.review} total=${total} />`}
    <${Body} data=${data} where=${{ ...where, cut: data.cut }} blind=${blind} query=${query} />`;
}

function Review({ where, label, blind, toggle, next, review, total }) {
  const [now, setNow] = useState(label);
  const [note, setNote] = useState(label?.note || "");
  const [who, setWho] = useState(kept("nel-who"));
  const [done, setDone] = useState(null);
  const [error, setError] = useState(null);
  const box = useRef();
  useEffect(() => { source.labels(where.key, where.bench).then(found => setDone(found.length), () => {}); }, [where.problem, where.repeat]);
  const say = async word => {
    try {
      const written = await source.label(where.key, where.bench, where.problem, where.repeat, { label: word, note, who });
      setDone(count => count === null ? null : count + (now?.label ? 0 : 1) - (word ? 0 : 1));
      setNow(written); setError(null);
      if (word && review) next();
    } catch (problem) { setError(problem); }
  };
  useKeys({ 1: () => say("right"), 2: () => say("wrong"), 3: () => say("unsure"), 0: () => say(""), n: () => box.current.focus(), Escape: () => document.activeElement.blur() });
  return html`<section class="review" aria-label="Review"><span class="choices">${Object.entries(KEYS).map(([word, sign]) => html`<button class=${word} aria-pressed=${now?.label === word} onClick=${() => say(word)}><kbd>${sign}</kbd> ${word}</button>`)}</span>
    <input ref=${box} type="text" placeholder="Note (n)" aria-label="Note" value=${note} onInput=${event => setNote(event.target.value)} onKeyDown=${event => event.key === "Enter" && say(now?.label || "unsure")} />
    <input type="text" class="who" placeholder="Your name" aria-label="Your name" value=${who} onInput=${event => { setWho(event.target.value); keep("nel-who", event.target.value); }} />
    <label><input type="checkbox" checked=${blind} onChange=${toggle} /> blind</label>
    <span class="note" role="status">${now?.label ? `${now.label}${now.who ? `, ${visible(now.who)}` : ""}` : "no label"}${done !== null ? ` · ${count(done)}${total ? ` of ${count(total)}` : ""} labelled` : ""}</span>
    ${error && html`<${Wait} error=${error} />`}</section>`;
}

function Body({ data, where, blind, query }) {
  const { row, answer, facts } = data;
  const reasons = blind ? [] : judgements(row.scoring_details || {});
  const expected = typeof row.expected_answer === "string" ? row.expected_answer : JSON.stringify(row.expected_answer);
  const reasoning = answer.reasoning_content;
  return html`<div class="columns-2"><div>
    <section><h2>Sent</h2><${Messages} messages=${data.sent} where=${where} /></section>
    <section class="answer"><h2>Answer ${facts.truncated && html`<${Chip} kind="truncated">truncated<//>`} ${!blind && facts.unparsed && html`<${Chip} kind="unparsed">unparsed<//>`}</h2>
      ${facts.cause && !blind && html`<pre class="error">${visible(facts.cause)}: ${visible(facts.error)}</pre>`}
      ${reasoning && html`<details class="reasoning"><summary>Reasoning (${count(where.cut["answer/reasoning_content"] || reasoning.length)} characters)</summary><${Text} text=${reasoning} where=${where} path="answer/reasoning_content" label="reasoning" /></details>`}
      <${Text} text=${typeof row.model_response === "string" ? row.model_response : JSON.stringify(row.model_response ?? "")} where=${where} path="row/model_response" label="answer" /></section>
    ${data.steps.length > 0 && html`<${Timeline} steps=${data.steps} where=${where} />`}
  </div><div>
    <section><h2>Expected and extracted</h2><dl class="pairs"><dt>Expected</dt><dd><pre dir="auto">${visible(expected)}</pre></dd>
      <dt>Extracted</dt><dd><pre dir="auto">${row.extracted_answer === null || row.extracted_answer === undefined ? "(nothing)" : visible(typeof row.extracted_answer === "string" ? row.extracted_answer : JSON.stringify(row.extracted_answer))}</pre></dd>
      ${!blind && html`<dt>Reward</dt><dd>${plain(facts.reward)}</dd>${Object.entries(row.scorer_rewards || {}).map(([name, value]) => html`<dt>${visible(name)}</dt><dd>${plain(value)}</dd>`)}`}</dl>
      ${reasons.map(([name, said]) => html`<h4>${visible(name)}</h4><pre dir="auto" class="judge">${visible(said)}</pre>`)}
      ${!blind && row.scoring_details?.tripwires && html`<div class="mind"><b>Tripwires</b><ul>${Object.entries(row.scoring_details.tripwires).map(([what, seen]) => html`<li>${visible(what)}: <code>${visible(seen)}</code></li>`)}</ul></div>`}</section>
    ${data.repeats.length > 0 && !blind && html`<section><h2>Repeats</h2><table><tbody>${data.repeats.map(one => html`<tr class=${one.repeat === where.repeat ? "chosen" : ""}><td><a href=${link(["row", where.key, where.bench, one.problem_idx, one.repeat], query)}>repeat ${one.repeat}</a></td><td><${Chip} kind=${verdictOf(one)}>${one.cause || verdictOf(one)}<//></td><td class="r">${plain(one.reward)}</td><td class="r">${count(one.tokens)} tokens</td><td class="r">${ms(one.latency_ms)}</td></tr>`)}</tbody></table>
      <${SideBySide} where=${where} repeats=${data.repeats} /></section>`}
    <section><h2>Facts</h2><dl class="pairs">${factsOf(row, answer, facts, data.timing, blind).map(([name, value]) => html`<dt>${name}</dt><dd>${visible(value)}</dd>`)}</dl>
      ${Object.keys(row.metadata || {}).length > 0 && html`<details open><summary>Metadata</summary><dl class="pairs">${Object.entries(row.metadata).map(([name, value]) => html`<dt>${visible(name)}</dt><dd dir="auto">${visible(typeof value === "string" ? value : JSON.stringify(value))}</dd>`)}</dl></details>`}
      ${!blind && html`<details><summary>Scoring details</summary><pre>${visible(JSON.stringify(row.scoring_details ?? {}, null, 2))}</pre></details><details><summary>The row as written</summary><pre>${visible(JSON.stringify(row, null, 2).slice(0, 200000))}</pre></details>`}</section>
    ${data.commands.length > 0 && html`<section><h2>Commands</h2>${data.commands.map(one => html`<h4>${one.what}</h4><pre class="command" tabindex="0">${visible(one.command)}</pre>`)}</section>`}
  </div></div>`;
}

function SideBySide({ where, repeats }) {
  const [open, setOpen] = useState(false);
  const [all] = useData(signal => open ? Promise.all(repeats.slice(0, 8).map(one => source.row(where.key, where.bench, one.problem_idx, one.repeat, signal))) : Promise.resolve(null), [open, where.problem]);
  return html`<details onToggle=${event => setOpen(event.target.open)}><summary>Answers side by side</summary>${all && html`<div class="sides">${all.map(one => html`<div><h4>repeat ${one.row.repeat} · ${plain(one.facts.reward)}</h4><pre dir="auto">${visible(String(one.row.model_response ?? "").slice(0, 4000))}</pre></div>`)}</div>`}</details>`;
}

const REASONS = new Set(["reasoning", "explanation", "rationale", "justification", "critique", "judge_reply"]);
function judgements(details, name = "judge") {
  return Object.entries(details).flatMap(([key, value]) => REASONS.has(key) && typeof value === "string" && value ? [[name, value]]
    : (Array.isArray(value) ? value : [value]).flatMap(part => part && typeof part === "object" ? judgements(part, key.replace(/^scorer:/, "")) : []));
}

function factsOf(row, answer, facts, timing, blind) {
  const found = [["Model", blind ? null : answer.model], ["Finish reason", row.finish_reason], ["Tokens", row.tokens ? `${count(row.tokens)} (${count(row.prompt_tokens)} + ${count(row.completion_tokens)})` : null],
    ["Reasoning tokens", answer.reasoning_tokens ? count(answer.reasoning_tokens) : null], ["Cached tokens", answer.cached_tokens ? count(answer.cached_tokens) : null], ["Latency", row.latency_ms ? ms(row.latency_ms) : null],
    ["First token", answer.time_to_first_token_ms ? ms(answer.time_to_first_token_ms) : null], ["Queue", answer.queue_ms ? ms(answer.queue_ms) : null], ["Cost", row.cost_usd ? money(row.cost_usd) : null], ["Attempts", facts.attempts],
    ["From cache", answer.from_cache ? "yes" : null], ["At", answer.at ? new Date(answer.at * 1000).toISOString() : null], ["Problem hash", row.problem_hash]];
  for (const [name, value] of Object.entries(timing || {})) if (typeof value === "number") found.push([name.replaceAll("_", " "), String(value)]);
  return found.filter(([, value]) => value !== null && value !== undefined && value !== "");
}
