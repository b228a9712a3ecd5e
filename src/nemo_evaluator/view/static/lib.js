// Preact, its hooks and its templates, under the names that every file here uses.
import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";

export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export { render } from "./vendor/preact.js";

/** Template tag: HTML with components in, Preact nodes out. */
export const html = htm.bind(h);
