"""Secrets in all the places where people put them reach no file, no process list and no output of a whole run."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from nel_support import Nel, Serve, api, command_lines_with, free_ports
from planted import OWN, Plants, echoes, files_with_secrets

from nemo_evaluator.executors.benchmark_image import BenchmarkImage

BENCH = """
import os
from nemo_evaluator import ScorerInput, benchmark, exact_match, scorer

@benchmark(name="planted", dataset=os.environ["DATASET_URL"], prompt="{q}?", target_field="a")
@scorer
def planted(sample: ScorerInput) -> dict:
    return exact_match(sample)
"""


# Stands in for vLLM: it prints its arguments and its environment, as servers do.
SERVER = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        message = b'{"choices": [{"message": {"role": "assistant", "content": "4"}, "finish_reason": "stop"}]}'
        body = message if self.command == "POST" else b'{"data": [{"id": "server"}]}'
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

print(sys.argv, dict(os.environ), flush=True)
port = int(sys.argv[sys.argv.index("--port") + 1])
HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
# They stand in the arguments of a program that is not ours.
ARGUMENTS = ("extra_args", "one extra argument")


@pytest.fixture
def plants() -> Plants:
    return Plants()


@pytest.fixture
def dataset() -> Iterator[str]:
    lines = b"".join(json.dumps({"q": f"{n} + 1", "a": "4"}).encode() + b"\n" for n in range(48))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(lines)))
            self.end_headers()
            self.wfile.write(lines)

        def log_message(self, *words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/rows.jsonl"
    server.shutdown()
    server.server_close()


def _model(url: str, plants: Plants) -> dict[str, object]:
    basic = base64.b64encode(f"me:{plants.word('basic authentication')}".encode()).decode()
    headers = {
        "X-Anything": plants.word("literal header"),
        "X-Bearer": plants.word("X-Bearer"),
        "Cookie": f"session={plants.word('cookie')}; theme=dark",
        "X-From-Variable": "${PLAIN_NAME}",
        "Proxy-Authorization": f"Basic {basic}",
        "Accept-Language": "en",
    }
    modifier = {"headers_to_add": {"X-Stage": plants.word("header of a stage")}}
    return api(
        f"{url}",
        api_key=plants.word("literal api_key"),
        proxy={
            "extra_headers": headers,
            "extra_body": {
                "user": "visible",
                "api_token": plants.word("extra_body"),
                "chat_template": f"{{% set api_key = '{plants.word('chat template')}' %}}{{{{ m }}}}",
                "metadata": {"webhook": f"https://hooks.h/T0/{plants.random('webhook')}/go"},
                "store": f"host=h user=me password={plants.word('connection of a database')}",
                "pair": {"id": "AKIAIOSFODNN7EXAMPLE", "value": _mixed(plants, "pair of AWS")},
                "openai_key_2": plants.word("numbered name"),
                "notebook": f'os.environ["HF_TOKEN"] = "{plants.word("code of a notebook")}"',
                "claim": _token(plants, "JWT"),
                "certificate": _encoded_key(plants, "private key in Base64"),
            },
            "interceptors": [
                {"name": "payload_modifier", "config": modifier},
                {"name": "logging"},
                {"name": "caching"},
            ],
        },
        retry={"max_retries": 0},
    ) | {"url": f"{url}/chat/completions?api_key={plants.word('URL of a service')}"}


def _mixed(plants: Plants, place: str) -> str:
    """A secret of 40 letters of both cases and digits, as the second key of AWS."""
    plants.values[place] = (plants.random(place) + "QwXz" * 10)[:40]
    return plants.values[place]


def _token(plants: Plants, place: str) -> str:
    """A signed token."""
    plants.values[place] = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJt{plants.random(place)}.aB3dEf6hIj9k"
    return plants.values[place]


def _encoded_key(plants: Plants, place: str) -> str:
    """A private key, as variables hold it."""
    key = f"-----BEGIN PRIVATE KEY-----\n{plants.random(place)}\n-----END PRIVATE KEY-----\n"
    plants.values[place] = base64.b64encode(key.encode()).decode()
    return plants.values[place]


def _server(plants: Plants) -> dict[str, object]:
    """A server that the run starts."""
    return {
        "type": "vllm",
        "port": free_ports(1),
        "model": "visible/model",
        "extra_env": {
            "DB_PASS": plants.word("DB_PASS"),
            "SSH_PASSPHRASE": plants.phrase("SSH_PASSPHRASE"),
            "SETTING": plants.random("random variable of a server"),
        },
        "extra_args": [
            "--api-key",
            plants.word("extra_args"),
            f"--auth-token={plants.word('one extra argument')}",
        ],
        "pre_cmd": f"export HF_TOKEN={plants.word('pre_cmd')}",
        "setup_commands": [
            f"true -H 'X-Api-Key: {plants.word('header in a command')}' http://u:{plants.word('URL in a command')}@h/",
            f"true -u me:{plants.word('user in a command')}",
        ],
    }


def _config(url: str, plants: Plants) -> dict[str, object]:
    judge = api(
        url,
        api_key="${JUDGE_SECRET}",
        retry={"max_retries": 0},
        proxy={"extra_body": {"note": f"Bearer {plants.random('value of another name')}"}},
    )
    variables = {
        "GITHUB_PAT": plants.word("variable of the run"),
        "NEUTRAL": "${NEUTRAL_NAME}",
        "RANDOM": plants.random("random variable of the run"),
        "WITH_DEFAULT": "${NOT_SET_ANYWHERE:-" + plants.random("default of a reference") + "}",
    }
    sandbox = {
        "type": "local",
        "container_env": {"MYSQL_PWD": plants.word("variable of a sandbox")},
    }
    return {
        "services": {"model": _model(url, plants), "judge": judge, "server": _server(plants)},
        "benchmarks": [
            {
                "name": "bench.py",
                "solver": {
                    "type": "simple",
                    "service": "model",
                    "system_prompt": f"Call it with X-Api-Key: {plants.word('system prompt')}\nThe password is "
                    f"{plants.word('password in a prompt')}.",
                },
                "sandbox": sandbox,
            }
        ],
        "cluster": {"type": "local", "container_env": variables},
        "output": {
            "traffic": "bodies",
            "rows": "full",
            "report": ["markdown", "html", "csv", "json"],
        },
    }


def _environment(nel: Nel, plants: Plants, dataset: str) -> None:
    nel.env |= {
        "XDG_CACHE_HOME": str(nel.folder / "cache"),
        "XDG_DATA_HOME": str(nel.folder / "data"),
        "HOME": str(nel.folder / "home"),
        "PLAIN_NAME": plants.word("variable in a header"),
        "JUDGE_SECRET": plants.word("variable of a judge"),
        "HF_TOKEN": plants.word("HF_TOKEN"),
        "NEUTRAL_NAME": plants.word("variable with a plain name"),
        "DATASET_URL": f"{dataset}?token={plants.word('URL of a dataset')}",
    }
    (nel.folder / "home").mkdir()
    package = nel.folder / "lib" / "vllm" / "entrypoints" / "cli"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").write_text("")
    (package / "main.py").write_text(SERVER)
    nel.env["PYTHONPATH"] = str(nel.folder / "lib")
    (nel.folder / ".env").write_text(
        f"OWN_PASS={plants.word('password in .env')}\nOWN_SETTING={plants.random('random text in .env')}\n"
    )


# What people look at and pass on: nothing of it may show a secret. They end as they like.
LOOKS = (
    ("report", "out"),
    ("report", "out", "-f", "json"),
    ("check", "out"),
    ("check", "out", "--json"),
    ("harvest", "out", "-f", "json"),
    ("compare", "out", "out", "--json"),
    ("show", "out", "--json"),
    ("show", "out", "--failed"),
    ("eval", "status", "-o", "out", "--json"),
    ("eval", "runs", "--json"),
    ("ls", "runs"),
    ("cache", "stats"),
    ("config", "check", "c.yaml", "--file-only"),
    ("config", "check", "c.yaml", "--file-only", "--json"),
    ("config", "env", "c.yaml"),
    ("eval", "run", "c.yaml", "--dry-run"),
    ("eval", "run", "c.yaml", "--dry-run", "--json"),
    ("doctor", "--json"),
)


def _looks(nel: Nel, plants: Plants) -> list[str]:
    """The commands whose outputs hold secrets, with the places of these."""
    run_id = json.loads((nel.folder / "out" / "nel_run.json").read_text())["run_id"]
    found = []
    for words in (
        *LOOKS,
        ("info", run_id),
        ("info", run_id, "--config"),
        ("status", run_id),
        ("logs", run_id),
    ):
        done = nel(*words, code=None)
        found += [
            f"{words}: {place}" for place in plants.leaks((done.stdout + done.stderr).encode())
        ]
    return found


def test_nothing_of_a_whole_run_holds_a_planted_secret(
    nel: Nel, serve: Serve, plants: Plants, dataset: str
) -> None:
    (nel.folder / "bench.py").write_text(BENCH)
    _environment(nel, plants, dataset)
    override = (
        f"services.model.proxy.extra_headers.X-Override={plants.word('override of a header')}"
    )
    judge = f"services.judge.proxy.extra_headers.X-Judge-Pass={plants.word('override of a judge')}"
    parts = _config("http://SERVER", plants)
    assert len(plants.values) >= 30
    server = serve(echoes(list(plants.values.values())))
    config = nel.config(
        "c.yaml", **json.loads(json.dumps(parts).replace("http://SERVER", server.url))
    )

    process = nel.start("eval", "run", config, "-O", override, "-O", judge, "-v", "-o", "out")
    lines: set[bytes] = set()
    during: set[str] = set()
    with ThreadPoolExecutor(1) as reader:
        # Its output is more than a pipe holds.
        output = reader.submit(process.communicate, timeout=200)
        while not output.done():
            if server.count:
                lines |= set(command_lines_with(OWN))
                during |= set(files_with_secrets(nel.folder, plants))
            time.sleep(0.05)
        out, err = output.result()
    shown = [out + err]
    assert server.count >= 48, err

    assert _looks(nel, plants) == []
    nel("view", "out", "--export", "page.html", code=None)
    nel("eval", "resume", "-o", "out", code=None)

    bench = nel.folder / "own"
    bench.mkdir()
    for name in ("bench.py", ".env"):
        (bench / name).write_text((nel.folder / name).read_text())
    (nel.folder / "context").mkdir()
    BenchmarkImage(bench, "python").write_context(nel.folder / "context")
    assert list((nel.folder / "context").rglob(".env")) == []

    assert plants.leaks("".join(shown).encode()) == []
    assert during == set()
    listed = {place for line in lines for place in plants.leaks(line)}
    assert listed <= set(ARGUMENTS)
    assert files_with_secrets(nel.folder, plants) == []
    snapshot = (nel.folder / "out" / "full_config.yaml").read_text()
    assert (
        "visible/model" in snapshot
        and "Accept-Language: en" in snapshot
        and "user: visible" in snapshot
    )


def test_what_is_redacted_leaves_ordinary_answers_alone(
    nel: Nel, serve: Serve, plants: Plants, dataset: str
) -> None:
    (nel.folder / "bench.py").write_text(BENCH)
    nel.env |= {"DATASET_URL": dataset, "STAGE": "production", "LEVEL": "debug"}
    ordinary = "The model m of red-team answered production debug 2024-06-01 application/json 4096 at /data/models"
    server = serve(ordinary)
    headers = {
        "X-Stage": "${STAGE}",
        "X-Date": "2024-06-01",
        "X-Model": "m",
        "Accept": "application/json",
    }
    service = api(server.url, api_key="EMPTY", proxy={"extra_headers": headers})
    variables = {"LOG_LEVEL": "${LEVEL}", "CACHE": "/data/models", "MAX_TOKENS": "4096"}
    benches = [
        {"name": "bench.py", "solver": {"type": "simple", "service": "model"}, "max_problems": 2}
    ]
    config = nel.config(
        "c.yaml",
        services={"model": service},
        benchmarks=benches,
        cluster={"type": "local", "container_env": variables},
    )
    nel("eval", "run", config, "-o", "out")
    rows = [
        json.loads(line)
        for line in (nel.folder / "out" / "planted" / "results.jsonl").read_text().splitlines()
    ]
    assert [
        row["model_response"] if "model_response" in row else row["response"] for row in rows
    ] == [ordinary] * 2


@pytest.mark.needs("mlflow", "wandb", "inspect")
def test_exports_hold_no_planted_secret(
    nel: Nel, serve: Serve, plants: Plants, dataset: str
) -> None:
    (nel.folder / "bench.py").write_text(BENCH)
    _environment(nel, plants, dataset)
    nel.env |= {"WANDB_MODE": "offline", "WANDB_API_KEY": plants.random("key of W&B")}
    store = f"sqlite:///{nel.folder}/mlflow.db"
    mlflow = {
        "tracking_uri": store,
        "log_config_params": True,
        "tags": {"team": "visible", "access_token": plants.word("tag of MLflow")},
    }
    parts: dict[str, Any] = _config("http://SERVER", plants)
    # Without the server that nel would start: its secrets are in no config, and nel cannot know them.
    unused = json.dumps(parts["services"].pop("server"))
    plants.values = {place: value for place, value in plants.values.items() if value not in unused}
    exports = [{"type": "mlflow", **mlflow}, "inspect", {"type": "wandb", "mode": "offline"}]
    parts["output"]["export"] = exports
    server = serve(echoes(list(plants.values.values())))
    config = nel.config(
        "c.yaml", **json.loads(json.dumps(parts).replace("http://SERVER", server.url))
    )
    done = nel("eval", "run", config, "-v", "-o", "out", code=None, timeout=900)
    assert "export to" not in done.stderr, done.stderr[-2000:]
    shown = [done.stdout + done.stderr]
    for words in (
        ("-d", "mlflow", "-o", f"tracking_uri={store}", "-o", "experiment_name=later"),
        ("-d", "inspect", "--output-dir", "later"),
        ("-d", "wandb", "-o", "mode=offline", "--output-dir", "later"),
        (
            "-d",
            "mlflow",
            "-o",
            f"tracking_uri=http://me:{plants.word('URL of a tracker')}@127.0.0.1:1",
        ),
        ("-d", "mlflow", "-o", f"tracking_pasword={plants.word('misspelt setting')}"),
    ):
        done = nel("export", "out", *words, code=None, timeout=900)
        shown.append(done.stdout + done.stderr)
    leaking = [line for line in "".join(shown).splitlines() if plants.leaks(line.encode())]
    assert leaking == []
    assert files_with_secrets(nel.folder, plants) == []
    assert (nel.folder / "mlflow.db").stat().st_size > 100_000
    assert list(nel.folder.rglob("*.eval")) and list(nel.folder.rglob("*.wandb"))


# Each is a config that is refused, and the secret stands where the error is.
BROKEN = {
    "a key that is a mapping": "services: {m: {type: api, api_key: {value: SECRET}}}",
    "a header that is a list": "services: {m: {type: api, proxy: {extra_headers: {X-Own: [SECRET]}}}}",
    "a broken line": "services:\n  m: {type: api, api_key: SECRET\n",
    "a tab before it": "services:\n  m:\n\tapi_key: SECRET\n",
    "a name written wrongly": "services: {m: {type: api, api_kye: SECRET}}",
    "a header with a line end": 'services: {m: {type: api, proxy: {extra_headers: {X-Own: "SECRET\\nX: y"}}}}',
    "a URL with a password": "services: {m: {type: api, url: 'ftp://me:SECRET@h/v1', protocol: chat_completions}}",
    "a port that is a secret": "services: {m: {type: vllm, port: SECRET, api_key: SECRET}}",
    "the same key twice": "services: {m: {api_key: SECRET, api_key: SECRET}}",
    "a variable with a bad name": "cluster: {type: local, container_env: {'A B': SECRET}}",
    "a variable with a control character": 'cluster: {type: local, container_env: {DB_PASS: "SECRET\\x07"}}',
    "an anchor that is missing": "services: {m: {api_key: SECRET, x: *nothing}}",
}


@pytest.mark.parametrize("broken", BROKEN)
def test_errors_about_a_config_hold_no_secret(nel: Nel, plants: Plants, broken: str) -> None:
    text = BROKEN[broken].replace("SECRET", plants.word(broken))
    (nel.folder / "c.yaml").write_text(text)
    for words in (
        ("eval", "run", "c.yaml"),
        ("config", "check", "c.yaml"),
        ("config", "check", "c.yaml", "--json"),
    ):
        done = nel(*words, code=1)
        assert plants.leaks((done.stdout + done.stderr).encode()) == [], done.stdout + done.stderr
