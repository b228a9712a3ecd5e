// Numbers and texts as people read them. Every function takes a value and returns a string.

const NOTHING = "–";
const KILOBYTE = 1024;
const MEGABYTE = 1024 * KILOBYTE;
const AGES = [
  [86400, "d"],
  [3600, "h"],
  [60, "m"],
];
// Control characters, and those that turn the reading direction round or have no width.
const UNSEEN = new RegExp(
  [
    "[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]",
    "[\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff]",
  ].join("|"),
  "g",
);

/** Whether there is no value. */
export function isMissing(value) {
  return value === null || value === undefined;
}

/** A number with up to four digits after the point: 0.25. */
export function plain(value) {
  return isMissing(value)
    ? NOTHING
    : Number(value)
        .toFixed(4)
        .replace(/\.?0+$/, "");
}

/** A number with its sign and four digits after the point: +0.2500. */
export function signed(value) {
  if (isMissing(value)) {
    return NOTHING;
  }
  const sign = value >= 0 ? "+" : "−";
  return sign + Math.abs(value).toFixed(4);
}

/** A share as a percentage: 12.5%. */
export function percent(value) {
  return isMissing(value) ? NOTHING : `${(100 * value).toFixed(1).replace(/\.0$/, "")}%`;
}

/** A whole number with commas: 12,345. */
export function count(value) {
  return isMissing(value) ? NOTHING : Math.round(value).toLocaleString("en");
}

/** US dollars, small amounts with four digits: $0.0012. */
export function money(value) {
  if (!value) {
    return NOTHING;
  }
  const digits = value < 1 ? 4 : 2;
  return `$${value.toFixed(digits)}`;
}

/** Milliseconds, from a second on as seconds: 1.5 s. */
export function duration(value) {
  if (isMissing(value)) {
    return NOTHING;
  }
  return value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
}

/** The bounds of a confidence interval: [0.100, 0.900]; empty without any. */
export function bounds(low, high) {
  if (isMissing(low) || isMissing(high)) {
    return "";
  }
  return `[${low.toFixed(3)}, ${high.toFixed(3)}]`;
}

/** A number of bytes: 12 KB. */
export function size(bytes) {
  if (bytes < KILOBYTE) {
    return `${bytes} B`;
  }
  if (bytes < MEGABYTE) {
    return `${(bytes / KILOBYTE).toFixed(0)} KB`;
  }
  return `${(bytes / MEGABYTE).toFixed(1)} MB`;
}

/** Seconds in the largest unit that fits: 3h. */
export function age(seconds) {
  if (isMissing(seconds)) {
    return NOTHING;
  }
  for (const [unit, sign] of AGES) {
    if (seconds >= unit) {
      return `${Math.floor(seconds / unit)}${sign}`;
    }
  }
  return `${Math.max(0, Math.floor(seconds))}s`;
}

function numbered(character) {
  return `‹${character.codePointAt(0).toString(16).padStart(4, "0")}›`;
}

/** A text in which characters that nobody would see are shown by their numbers. */
export function visible(text) {
  return String(text ?? "").replace(UNSEEN, numbered);
}

/** A value as text: texts as they are, everything else as JSON. */
export function asText(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A value as JSON over several lines. */
export function asJson(value) {
  return JSON.stringify(value, null, 2);
}

/** The last two folders of a path. */
export function pathEnd(path) {
  return path.split("/").slice(-2).join("/");
}

/** " · " and a text, for the second and further parts of a line; empty where there is no text. */
export function further(text) {
  return text ? ` · ${text}` : "";
}
