#!/usr/bin/env python3
"""An ``openclaw`` of a few lines: takes the config and arguments of the real one, and does what the model says.

The model's text is a shell command, or ``how: WORD``: an end of that kind.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

STATE = Path(os.environ.get("OPENCLAW_STATE_DIR", "."))


def say(result: dict[str, Any], code: int = 0) -> NoReturn:
    print(json.dumps(result, indent=2))
    raise SystemExit(code)


def arguments() -> argparse.Namespace:
    if sys.argv[1:] == ["--version"]:
        print("OpenClaw 2026.9.6 (stand-in)")
        raise SystemExit
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["agent"])
    for flag in ("--local", "--json"):
        parser.add_argument(flag, action="store_true", required=True)
    for name in ("--agent", "--message-file", "--session-id", "--thinking", "--timeout"):
        parser.add_argument(name, required=True)
    return parser.parse_args()


def ask(config: dict[str, Any], messages: list[dict[str, Any]], args: argparse.Namespace) -> str:
    name, _, model = config["agents"]["defaults"]["model"]["primary"].partition("/")
    provider = config["models"]["providers"][name]
    (entry,) = provider["models"]
    if args.thinking != "off" and not entry["reasoning"]:
        error = f'Thinking level "{args.thinking}" is not supported for {name}/{model}. Use one of: off.'
        say({"ok": False, "error": {"type": "cli_error", "message": error}}, 1)
    assert provider["api"] == "openai-completions" and entry["id"] == model
    body = {
        "model": model,
        "messages": messages,
        "max_completion_tokens": entry.get("contextWindow", 100),
    }
    key = os.path.expandvars(provider["apiKey"])
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    request = urllib.request.Request(
        f"{provider['baseUrl']}/chat/completions", json.dumps(body).encode(), headers
    )
    try:
        with urllib.request.urlopen(request, timeout=provider["timeoutSeconds"]) as reply:
            return str(json.load(reply)["choices"][0]["message"]["content"])
    except urllib.error.HTTPError as error:
        text = f"{name}/{model} request failed (HTTP {error.code})."
        say({"ok": False, "error": {"type": "cli_error", "message": text}}, 1)


def end(how: str) -> NoReturn:
    if how == "crash":
        print("Error: Cannot find module", file=sys.stderr)
        raise SystemExit(1)
    if how == "killed":
        os.kill(os.getpid(), 9)
    texts = {"empty": "", "transient": "⚠️ Agent couldn't generate a response. Please try again."}
    error = how not in texts
    say({"payloads": [{"text": texts.get(how, how), "isError": error}], "meta": {}}, int(error))


def main() -> None:
    args = arguments()
    config = json.loads(Path(os.environ["OPENCLAW_CONFIG_PATH"]).read_text())
    workspace = config["agents"]["defaults"]["workspace"]
    STATE.mkdir(exist_ok=True)
    session = STATE / f"{args.session_id}.json"
    talk = json.loads(session.read_text()) if session.exists() else []
    talk.append({"role": "user", "content": Path(args.message_file).read_text()})
    # The real one closes each request with a note that does not stay in the conversation.
    said = ask(config, [*talk, {"role": "user", "content": "a note"}], args)
    if said.startswith("how: "):
        end(said[5:])
    print("a line before the result")
    done = subprocess.run(
        ["sh", "-c", said], cwd=workspace, capture_output=True, text=True, check=False
    )
    talk += [
        {"role": "assistant", "content": said},
        {"role": "user", "content": f"exit {done.returncode}"},
    ]
    if said.endswith("sleep 60"):
        time.sleep(60)
    answer = ask(config, [*talk, {"role": "user", "content": "a note"}], args)
    session.write_text(json.dumps([*talk, {"role": "assistant", "content": answer}]))
    say({"payloads": [{"text": answer, "mediaUrl": None}], "meta": {"durationMs": 1}})


main()
