// Where data comes from: the server, or files that `nel view --export` wrote beside this page.
let made = null;

export async function start() {
  const inside = document.getElementById("nel-data");
  if (inside) made = JSON.parse(inside.textContent);
  else if (document.querySelector("meta[name=nel-export]")) made = await (await fetch("data/export.json")).json();
  return Boolean(made);
}

export const exported = () => Boolean(made);

async function ask(name, query, options = {}) {
  const said = new URLSearchParams(Object.entries(query || {}).filter(([, value]) => value !== undefined && value !== ""));
  const reply = await fetch(`api/${name}?${said}`, options);
  if (reply.ok) return reply;
  let told = { error: `${reply.status} ${reply.statusText}` };
  try { told = await reply.json(); } catch { /* a refusal in plain words */ }
  throw Object.assign(new Error(told.error || "the server refused"), { hint: told.hint });
}
const json = async (name, query, options) => (await ask(name, query, options)).json();

export const runs = signal => made ? Promise.resolve({ runs: made.runs, who: "" }) : json("runs", {}, { signal });
export const run = (key, signal) => made ? Promise.resolve(made.pages[key]) : json("run", { run: key }, { signal });
export const figures = (key, bench, signal) => made ? Promise.resolve({ html: made.figures[`${key}/${bench}`] || "" }) : json("figures", { run: key, bench }, { signal });
export const facets = (key, bench, signal) => made ? Promise.resolve(made.facets[`${key}/${bench}`]) : json("facets", { run: key, bench }, { signal });
export const comparable = () => made ? made.compared.length > 0 : true;
export async function compare(keys, signal) {
  if (!made) return json("compare", { runs: keys.join(",") }, { signal });
  const name = `compare-${keys.join(",")}`;
  if (!made.compared.includes(keys.join(","))) throw new Error("an export compares two runs at a time, of at most six");
  const found = made.whole ? made.whole[name] : await (await fetch(`data/${name}.json`, { signal })).json();
  if (found.error) throw Object.assign(new Error(found.error), { hint: found.hint });
  return found;
}

// Rows of an export: the table is one file, filtered here; bodies lie in chunks.
const tables = {};
async function table(key, bench) {
  const name = `${key}/${bench}`;
  tables[name] ||= made.whole ? Promise.resolve(made.whole[made.places[name]].map(one => one.line)) : fetch(`data/${made.places[name]}/index.json`).then(reply => reply.json());
  return tables[name];
}

const FLAGS = ["truncated", "unparsed", "refused", "tripped"];
function fits(row, query) {
  for (const name of ["cause", "category", "finish_reason"]) if (query[name] && row[name] !== query[name]) return false;
  if (query.status && (query.status === "failed") !== Boolean(row.cause)) return false;
  for (const name of FLAGS) if (query[name] && (query[name] === "1") !== row[name]) return false;
  for (const name of ["reward", "tokens", "latency_ms"]) {
    if (query["min_" + name] && !(row[name] !== null && row[name] >= Number(query["min_" + name]))) return false;
    if (query["max_" + name] && !(row[name] !== null && row[name] <= Number(query["max_" + name]))) return false;
  }
  if (query.problem_idx && row.problem_idx !== Number(query.problem_idx)) return false;
  if (query.label && !(query.label === "none" ? !row.label : query.label === "any" ? row.label : row.label === query.label)) return false;
  for (const [name, value] of Object.entries(query)) {
    if (name.startsWith("meta.") && value && !String(row.metadata[name.slice(5)] ?? "").toLowerCase().includes(value.toLowerCase())) return false;
  }
  return true;
}

async function chosen(key, bench, query) {
  const rows = (await table(key, bench)).filter(row => fits(row, query));
  const by = (query.sort || "problem_idx").replace(/^-/, ""), turn = (query.sort || "").startsWith("-") ? -1 : 1;
  const at = row => by === "problem_idx" ? row.problem_idx * 1e6 + row.repeat : by === "cost" ? row.cost_usd : row[by];
  return by === "problem_idx" && turn === 1 ? rows : [...rows].sort((a, b) => turn * ((at(a) ?? -Infinity) - (at(b) ?? -Infinity)));
}

export async function rows(key, bench, query, offset, limit, signal) {
  if (!made) return json("rows", { ...query, run: key, bench, offset, limit }, { signal });
  const found = await chosen(key, bench, query);
  return { total: found.length, rows: found.slice(offset, offset + limit) };
}

async function chunked(entry, place) {
  if (made.whole) return made.whole[place][entry[0]].page;
  const [chunk, start, length] = entry;
  const reply = await fetch(`data/${place}/rows-${chunk}.jsonl`, { headers: { Range: `bytes=${start}-${start + length - 1}` } });
  const bytes = new Uint8Array(await reply.arrayBuffer());
  // A server that knows no ranges sends the whole chunk.
  return JSON.parse(new TextDecoder().decode(reply.status === 206 ? bytes : bytes.subarray(start, start + length)));
}

export async function row(key, bench, problem, repeat, signal) {
  if (!made) return json("row", { run: key, bench, problem, repeat }, { signal });
  const entry = (await table(key, bench)).find(one => one.problem_idx === problem && one.repeat === repeat);
  if (!entry) throw new Error(`there is no row of problem ${problem}, repeat ${repeat}`);
  return chunked(entry.at, made.places[`${key}/${bench}`]);
}

export async function part(key, bench, problem, repeat, path, from) {
  return (await ask("text", { run: key, bench, problem, repeat, path, from })).text();
}

// A search: each hit and each word on how far it is, as it comes. Stopped by the signal.
export async function search(key, bench, query, each, signal) {
  if (made) {
    const low = query.text.toLowerCase();
    for (const one of await chosen(key, bench, { ...query, sort: "" })) {
      const whole = (await chunked(one.at, made.places[`${key}/${bench}`])).row;
      const said = { prompt: [whole.prompt], answer: [whole.model_response] }[query.in] || [whole.prompt, whole.model_response];
      if (signal.aborted) return;
      if (said.some(text => String(text ?? "").toLowerCase().includes(low))) each(one);
    }
    return each({ done: true });
  }
  const reply = await ask("search", { ...query, run: key, bench }, { signal });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    lines.forEach(line => each(JSON.parse(line)));
  }
}

export const exportUrl = (key, bench, query, format) => `api/export?${new URLSearchParams({ ...query, run: key, bench, format })}`;

export async function label(key, bench, problem, repeat, said) {
  const where = { run: key, bench, problem, repeat };
  return json("label", where, { method: "POST", body: JSON.stringify(said), headers: { "content-type": "application/json" } });
}
export const labels = (key, bench) => made ? Promise.resolve([]) : json("labels", { run: key, bench });

// Tells when runs change; returns what ends it.
export function live(keys, each) {
  if (made) return () => {};
  const events = new EventSource(`api/live?runs=${keys.join(",")}`);
  events.onmessage = event => JSON.parse(event.data).runs.forEach(each);
  return () => events.close();
}
