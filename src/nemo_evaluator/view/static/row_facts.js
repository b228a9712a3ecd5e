// What a row's page lists about a row, taken from what the source says of it.
import { count, duration, isMissing, money } from "./format.js";

// The fields in which scorers keep a judge's reasons.
const REASONS = new Set([
  "reasoning",
  "explanation",
  "rationale",
  "justification",
  "critique",
  "judge_reply",
]);
const SCORER = /^scorer:/;

function isReason(name, value) {
  return REASONS.has(name) && typeof value === "string" && value !== "";
}

function isObject(value) {
  return typeof value === "object" && value !== null;
}

/**
 * Collects judges' reasons from scoring details.
 * @param {Object} details The details, or a part of them.
 * @param {string} judge The name of the part.
 * @returns {Array<[string, string]>} The name of a judge and its reason, for each reason.
 */
export function judgements(details, judge = "judge") {
  return Object.entries(details).flatMap(([name, value]) => {
    if (isReason(name, value)) {
      return [[judge, value]];
    }
    const parts = Array.isArray(value) ? value : [value];
    const partName = name.replace(SCORER, "");
    return parts.filter(isObject).flatMap(part => judgements(part, partName));
  });
}

/** A number in some form; null where there is none, or 0. */
function shown(value, format) {
  return value ? format(value) : null;
}

function tokenText(row) {
  const prompt = count(row.prompt_tokens);
  const completion = count(row.completion_tokens);
  return `${count(row.tokens)} (${prompt} + ${completion})`;
}

function timeText(seconds) {
  return new Date(seconds * 1000).toISOString();
}

/**
 * The facts of a row.
 * @param {Object} data What the source says of the row.
 * @param {boolean} isBlind Whether the model's name is left out.
 * @returns {Array<[string, string|number]>} Names and values; facts that are not known are left
 *   out.
 */
export function factsOf({ row, answer, facts, timing }, isBlind) {
  const entries = [
    ["Model", isBlind ? null : answer.model],
    ["Finish reason", row.finish_reason],
    ["Tokens", shown(row.tokens, () => tokenText(row))],
    ["Reasoning tokens", shown(answer.reasoning_tokens, count)],
    ["Cached tokens", shown(answer.cached_tokens, count)],
    ["Latency", shown(row.latency_ms, duration)],
    ["First token", shown(answer.time_to_first_token_ms, duration)],
    ["Queue", shown(answer.queue_ms, duration)],
    ["Cost", shown(row.cost_usd, money)],
    ["Attempts", facts.attempts],
    ["From cache", answer.from_cache ? "yes" : null],
    ["At", shown(answer.at, timeText)],
    ["Problem hash", row.problem_hash],
  ];
  for (const [name, value] of Object.entries(timing || {})) {
    if (typeof value === "number") {
      entries.push([name.replaceAll("_", " "), String(value)]);
    }
  }
  return entries.filter(([, value]) => !isMissing(value) && value !== "");
}
