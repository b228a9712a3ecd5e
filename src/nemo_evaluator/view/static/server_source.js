// Data from the running server; source.js describes the methods.

function isGiven(value) {
  return value !== undefined && value !== "";
}

/** The server's refusal as an Error, with its hint. */
async function refusal(reply) {
  let problem = { error: `${reply.status} ${reply.statusText}` };
  try {
    problem = await reply.json();
  } catch {
    // A refusal in plain words: the status has to do.
  }
  const error = new Error(problem.error || "the server refused");
  return Object.assign(error, { hint: problem.hint });
}

/** Asks the server; throws its refusal. */
async function ask(name, query, options = {}) {
  const given = Object.entries(query).filter(([, value]) => isGiven(value));
  const reply = await fetch(`api/${name}?${new URLSearchParams(given)}`, options);
  if (!reply.ok) {
    throw await refusal(reply);
  }
  return reply;
}

/** Asks the server for JSON. */
async function askJson(name, query, options) {
  const reply = await ask(name, query, options);
  return reply.json();
}

/** Calls `onMessage` with each line of JSON of a reply, as it comes. */
async function readLines(reply, onMessage) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let unfinishedLine = "";
  let chunk = await reader.read();
  while (!chunk.done) {
    const lines = (unfinishedLine + chunk.value).split("\n");
    unfinishedLine = lines.pop();
    for (const line of lines) {
      onMessage(JSON.parse(line));
    }
    chunk = await reader.read();
  }
}

async function search(address, query, { onMessage, signal }) {
  const reply = await ask("search", { ...query, ...address }, { signal });
  await readLines(reply, onMessage);
}

async function textPart(address, path, start) {
  const reply = await ask("text", { ...address, path, from: start });
  return reply.text();
}

function label(address, content) {
  return askJson("label", address, {
    method: "POST",
    body: JSON.stringify(content),
    headers: { "content-type": "application/json" },
  });
}

function watch(keys, onRun) {
  const events = new EventSource(`api/live?runs=${keys.join(",")}`);
  events.onmessage = event => {
    for (const run of JSON.parse(event.data).runs) {
      onRun(run);
    }
  };
  return () => events.close();
}

const METHODS = {
  runs: signal => askJson("runs", {}, { signal }),
  data: (name, address, signal) => askJson(name, address, { signal }),
  compare: (keys, signal) => askJson("compare", { runs: keys.join(",") }, { signal }),
  rows: (address, query, { offset, limit, signal }) =>
    askJson("rows", { ...query, ...address, offset, limit }, { signal }),
  search,
  row: (address, signal) => askJson("row", address, { signal }),
  textPart,
  labels: address => askJson("labels", address),
  label,
  watch,
  downloadUrl: (address, query, format) =>
    `api/export?${new URLSearchParams({ ...query, ...address, format })}`,
};

/** Makes the source; asks the server which filters there are. */
export async function serverSource() {
  const { filters } = await askJson("filters", {});
  return { isExport: false, canCompare: true, filters, ...METHODS };
}
