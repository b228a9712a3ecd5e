// Hooks that several pages use: data that is asked for, and keys that are heard.
import { useEffect, useLayoutEffect, useRef, useState } from "./lib.js";

/**
 * Asks for data, and asks again when the inputs change.
 * @param {function(AbortSignal): Promise} request Starts the request; its signal ends it.
 * @param {Array} inputs What the request depends on.
 * @returns {[*, ?Error]} The data and the error; both are null while nothing has come.
 */
export function useData(request, inputs) {
  const [state, setState] = useState([null, null]);
  useEffect(() => {
    let isCurrent = true;
    const controller = new AbortController();
    const succeed = data => {
      if (isCurrent) {
        setState([data, null]);
      }
    };
    const fail = error => {
      if (isCurrent && error.name !== "AbortError") {
        setState([null, error]);
      }
    };
    request(controller.signal).then(succeed, fail);
    return () => {
      isCurrent = false;
      controller.abort();
    };
  }, inputs);
  return state;
}

const TYPING = /^(input|textarea|select)$/i;

/**
 * Listens to keys while a component is shown; not while somebody types, Escape excepted.
 * @param {Object<string, function(KeyboardEvent)>} actions What each key does. An action that
 *   returns false leaves the key to the browser.
 */
export function useKeys(actions) {
  const latest = useRef(actions);
  latest.current = actions;
  // A layout effect runs before the page is painted: whoever sees a page may press a key.
  useLayoutEffect(() => {
    const listen = event => {
      const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
      const isTyping = TYPING.test(event.target.tagName) && event.key !== "Escape";
      const action = latest.current[event.key];
      if (hasModifier || isTyping || !action) {
        return;
      }
      if (action(event) !== false) {
        event.preventDefault();
      }
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}
