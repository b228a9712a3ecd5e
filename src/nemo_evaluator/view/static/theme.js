// Light or dark: what the system says, until a person chooses.
import { recall, remember } from "./memory.js";

const KEY = "nel-theme";

/** Shows the theme that was chosen on an earlier visit. */
export function restoreTheme() {
  const chosen = recall(KEY);
  if (chosen) {
    document.documentElement.dataset.theme = chosen;
  }
}

function isDark() {
  const root = document.documentElement;
  if (getComputedStyle(root).colorScheme === "dark") {
    return true;
  }
  return !root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Changes from light to dark or back, and remembers it. */
export function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  remember(KEY, theme);
}
