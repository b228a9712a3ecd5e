"""Which texts of a config are secrets: by name, by place, by what they look like. What is none is left alone."""

from __future__ import annotations

import base64
import random
import secrets
import string
import time

import pytest
import yaml

from nemo_evaluator.core.secret_commands import command_parts
from nemo_evaluator.core.secret_masks import holds_mask, masked_config
from nemo_evaluator.core.secret_names import looks_secret
from nemo_evaluator.core.secret_places import remember_config
from nemo_evaluator.core.secret_values import looks_random, url_parts
from nemo_evaluator.core.secrets import Secret, scrub

SECRET_NAMES = [
    "api_key",
    "apiKey",
    "API_KEY",
    "X-Api-Key",
    "DB_PASS",
    "DB_PASSWORD",
    "SSH_PASSPHRASE",
    "GITHUB_PAT",
    "X-Bearer",
    "Cookie",
    "Set-Cookie",
    "MYSQL_PWD",
    "accessToken",
    "access_token",
    "HF_TOKEN",
    "Authorization",
    "Proxy-Authorization",
    "client_secret",
    "AWS_SECRET_ACCESS_KEY",
    "private_key",
    "SENTRY_DSN",
    "basic_auth",
    "passwd",
    "userPassword",
    "OPENAI_API_KEYS",
    "auth_tokens",
    "mfa_code",
    "recovery_codes",
    "session_id",
    "PHPSESSID",
    "connect.sid",
    "license_keys",
    "mnemonic",
    "pw",
]
PLAIN_NAMES = [
    "max_tokens",
    "tokenizer",
    "stop_tokens",
    "PATH",
    "PWD",
    "OLDPWD",
    "answer_key",
    "sort_key",
    "input_key",
    "eos_token",
    "pad_token",
    "api_key_env",
    "key_file",
    "private_key_secret_arn",
    "model",
    "name",
    "compass",
    "keyboard",
    "monkey",
    "authors",
    "passes",
    "path",
    "password_file",
    "pattern",
    "dispatch",
    "exit_code",
    "status_codes",
    "country_code",
    "XDG_SESSION_ID",
    "end_reasoning_token",
    "keys",
    "tokens",
    "license",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_names_of_other_things(name: str) -> None:
    assert not looks_secret(name)


PLAIN_VALUES = [
    "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen2.5-VL-72B-Instruct-AWQ",
    "Qwen/Qwen3-235B-A22B-Instruct-2507",
    "mistralai/Mixtral-8x7B",
    "/root/.cache/huggingface/hub",
    "/data/models/snapshots/0123456789abcdef0123456789abcdef01234567",
    "2024-01-31T12:00:00Z",
    "nvcr.io/nvidia/tritonserver:24.01-py3",
    "expandable_segments:True",
    "max_split_size_mb:512",
    "FLASHINFER",
    "en_US.UTF-8",
    "http://localhost:8000/v1",
    "0,1,2,3",
    "ec2-54-12-1-2.compute.amazonaws.com",
    "image@sha256:9f86d081884c7d659a2feaa0c55ad015",
    "float16",
    "bfloat16",
    "cuda:0",
    "/usr/local/cuda-12.4/lib64:/usr/lib",
    "./results",
    "~/models/llama",
    "tensor_parallel_size",
    "production",
    "TheQuickBrownFox",
    "gpt-4o-mini-2024-07-18",
    "claude-3-5-sonnet-20241022",
    "nvidia/llama-3.3-nemotron-super-49b-v1",
    "deepseek-r1",
]


@pytest.mark.parametrize("value", PLAIN_VALUES)
def test_ordinary_values_are_not_random(value: str) -> None:
    assert not looks_random(value)
    data = {
        "services": {"m": {"extra_env": {"SETTING": value}, "extra_args": ["--setting", value]}}
    }
    assert masked_config(data, []) == data


def _generators(draw: random.Random) -> list[str]:
    letters = string.ascii_letters + string.digits
    return [
        "".join(draw.choices("0123456789abcdef", k=16)),
        "".join(draw.choices("0123456789ABCDEF", k=32)),
        "".join(draw.choices(letters, k=20)),
        "".join(draw.choices(letters + "-_", k=24)),
        base64.b64encode(draw.randbytes(24)).decode(),
    ]


def test_every_draw_of_a_random_key_is_caught_where_keys_stand() -> None:
    draw = random.Random(7)
    missed = []
    for _ in range(1_000):
        for key in _generators(draw):
            data = {"cluster": {"container_env": {"SETTING": key}}}
            if key in str(masked_config(data, [])):
                missed.append(key)
    assert missed == []


CONFIG = """
services:
  m:
    url: "http://h/v1?api_key=planted-01"
    api_key: "planted-02"
    extra_env: {DB_PASS: planted-03, SSH_PASSPHRASE: "planted 04 words", PLAIN: visible-01, GITHUB_PAT: planted-05}
    extra_args: ["--api-key", "planted-06", "--token=planted-07", "--max-tokens", "512"]
    pre_cmd: "export HF_TOKEN=planted-08; curl -H 'X-Api-Key: planted-09' -u me:planted-10 http://u:planted-11@h/"
    proxy:
      extra_headers:
        X-Anything: planted-12
        Cookie: "session=planted-13; other=planted-14"
        Authorization: "Basic planted-15"
        Content-Type: application/json
        User-Agent: visible-02
      extra_body: {user: visible-03, api_key: planted-16}
output:
  export_config:
    mlflow: {tracking_uri: "http://me:planted-17@h:5000", experiment: visible-04}
benchmarks:
  - name: "hf://x?token=planted-18"
    solver: {type: custom, config: {auth_token: "${KEY:-planted-19}", answer_key: visible-05}}
    sandbox: {container_env: ["DB_PASS=planted-20", "MODE=visible-06"]}
    note: "sk-planted210123456789abcdef"
"""


def test_a_config_keeps_what_is_plain_and_nothing_that_is_secret() -> None:
    masked: list = []
    data = masked_config(yaml.safe_load(CONFIG), masked)
    text = yaml.safe_dump(data)
    assert "planted" not in text
    assert [
        f"visible-0{number}" for number in range(1, 7) if f"visible-0{number}" not in text
    ] == []
    assert data["benchmarks"][0]["solver"]["config"]["auth_token"] == "${KEY:-***}"
    assert data["services"]["m"]["extra_args"] == [
        "--api-key",
        "***",
        "--token=***",
        "--max-tokens",
        "512",
    ]
    assert data["services"]["m"]["proxy"]["extra_headers"]["Content-Type"] == "application/json"
    assert len(masked) >= 15


def test_references_stay() -> None:
    headers = {
        "Authorization": "Bearer ${TOKEN}",
        "Cookie": "sid=${SID}",
        "X-A": "${A}",
        "X-B": "${A:-}",
    }
    data = {"services": {"m": {"proxy": {"extra_headers": headers}, "api_key": "${KEY}"}}}
    assert masked_config(data, []) == data


def test_what_is_remembered_and_what_is_not() -> None:
    own = secrets.token_hex(8)
    raw = {
        "services": {
            "m": {
                "model": "org/model-of-header",
                "extra_env": {"FOLDER": "${FOLDER}", "SETTING": "${SETTING}"},
                "proxy": {
                    "extra_headers": {
                        "X-Model": "org/model-of-header",
                        "X-Date": "2024-06-01",
                        "X-Team": "red",
                    }
                },
            }
        }
    }
    environment = {"FOLDER": "/data/folder", "SETTING": f"from-variable-{own}"}
    data = yaml.safe_load(yaml.safe_dump(raw))
    data["services"]["m"]["extra_env"] = environment
    remember_config(data, raw, environment)
    plain = "/data/folder org/model-of-header 2024-06-01 red"
    assert scrub(plain) == plain
    assert scrub(f"<from-variable-{own}>") == "<***>"


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "@", "@h", ":x-oauth-basic"])
def test_base64_finds_a_secret_inside_other_text(before: str, after: str) -> None:
    Secret("inner-secret-0042-value")
    encoded = base64.b64encode(f"{before}inner-secret-0042-value{after}".encode()).decode()
    shown = scrub(f"Basic {encoded}.")
    assert "***" in shown
    assert base64.b64encode(b"inner-secret-0042-value").decode()[4:20] not in shown
    assert encoded[6:24] not in shown


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("postgresql://me:pw@h/db", ["pw"]),
        (
            "https://ghp_0123456789abcdefghij:x-oauth-basic@github.com/x",
            ["ghp_0123456789abcdefghij"],
        ),
        ("ssh://git@github.com/x", []),
        ("harbor://swebench-verified@1.0", []),
        ("http://h/?sig=abc&v=1", ["abc"]),
        ("see http://a:b1@h and http://c:d2@h", ["b1", "d2"]),
    ],
)
def test_urls(url: str, parts: list[str]) -> None:
    assert url_parts(url) == parts


def test_commits_and_digests_in_commands_stay() -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    assert command_parts(f"git checkout {commit} && REVISION={commit} make") == []


_PEM = "-----BEGIN {kind}-----\nMIIEplanted0Zx81\nplantedQwe77Lp\n-----END {kind}-----\n"
_SLACK = "https://hooks.slack.com/services/T00000000/B00000000/plantedXXXXXXXX12345678"
_ACCOUNT = (
    "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=planted25planted==;EndpointSuffix=core"
)
UNUSUAL = {
    "a signed URL of AWS": {
        "name": "https://s3/rows?X-Amz-Credential=AKIAplanted/1&X-Amz-Signature=planted5abc"
    },
    "a signed URL of Google": {"name": "https://gcs/rows?X-Goog-Signature=planted5abc&Expires=3"},
    "cookies as a mapping": {"extra_body": {"cookies": {"sid": "planted-7"}}},
    "cookies as a list": {"extra_body": {"cookies": ["sid=planted-7"]}},
    "a proxy without a scheme": {"proxy_url": "u:planted-8@p:3128"},
    "a proxy in an environment": {"container_env": {"HTTPS_PROXY": "u:planted8@p:3128"}},
    "name and value of a variable": {"env": [{"name": "DB_PASSWORD", "value": "planted-10"}]},
    "name and value of a header": {"headers": [{"name": "X-Own", "value": "planted-11"}]},
    "pairs of headers": {"headers": [["X-Own", "planted-11"]]},
    "headers as lines": {"headers": "X-Own: planted-12\nX-Other: planted-13"},
    "headers as a list in one text": {"extra_headers": "X-Own=planted-12,X-Other=planted-13"},
    "headers in a variable": {"container_env": {"VLLM_HEADERS": "x-own=planted60"}},
    "a connection string": {"connection": "Server=x;User Id=me;Pwd=planted26;"},
    "a connection string of Azure": {"container_env": {"STORE": _ACCOUNT}},
    "a key of PGP": {"cert": _PEM.format(kind="PGP PRIVATE KEY BLOCK")},
    "a key of EC": {"cert": _PEM.format(kind="EC PRIVATE KEY")},
    "a header in a sentence": {"note": "Authorization: Bearer planted28abc"},
    "names cut short": {
        "pswd": "planted29",
        "psw": "planted29",
        "otp": "planted30",
        "hmac": "planted31",
    },
    "names written together": {
        "deploykey": "planted49",
        "accountkey": "planted49",
        "signingKey": "planted49",
    },
    "names with dots and spaces": {
        "auth.token": "planted52",
        "API Key": "planted53",
        "api\u2010key": "planted58",
    },
    "names of Windows": {"container_env": {"UserPassword": "planted22", "APIKEY": "planted23"}},
    "a webhook of Slack": {"webhook": _SLACK},
    "a webhook of Discord": {
        "hook": "https://discord.com/api/webhooks/123456789012/planted-AbCdEfGh1234567890"
    },
    "keys by provider": {"api_keys_map": {"openai": "planted39"}},
    "a block of authentication": {"auth": {"username": "me", "value": "planted40"}},
    "a pair of authentication": {"auth": ["me", "planted41"]},
    "a number as a password": {"password": 5217345678.5},
    "JSON in a variable": {"env": {"CONF": '{"api_key": "planted54", "n": 1}'}},
    "JSON in a parameter": {"params": {"conf": '{"password": "planted54"}'}},
    "JSON in a command": {"pre_cmd": 'curl -d \'{"api_key": "planted71"}\' h'},
    "JSON escaped in a command": {"pre_cmd": 'curl -d "{\\"api_key\\": \\"planted71\\"}" h'},
    "a form in a command": {"pre_cmd": "curl -d 'password=planted72&user=x' h"},
    "cookies in a command": {"pre_cmd": "curl -s -b 'sid=planted73' h"},
    "a joined user in a command": {"pre_cmd": "curl -ume:planted67 h"},
    "sshpass": {"setup_commands": ["sshpass -p planted69 ssh h"]},
    "a pipe into a login": {
        "setup_commands": ["echo planted74 | docker login -u me --password-stdin"]
    },
    "set and export": {
        "pre_cmd": "export 'WANDB_API_KEY'=planted65; set PASSWORD planted66; setenv HF_TOKEN planted"
    },
    "variables of a container": {
        "command": ["docker", "run", "-e", "API_KEY=planted46", "--env=DB_PASS=planted48", "i"]
    },
    "arguments with underscores": {
        "command": ["srv", "--API_KEY", "planted14", "--hf-token=planted15"]
    },
    "tools over MCP": {
        "tools": [
            {"args": ["-y", "srv", "--token", "planted16"], "env": {"BRAVE_API_KEY": "planted"}}
        ]
    },
    "exporters": {
        "export": [
            {"type": "mlflow", "tracking_password": "planted20"},
            {"auth": {"value": "planted21"}},
        ]
    },
    "interceptors": {
        "interceptors": [{"config": {"params_to_add": {"extra": {"access_token": "planted44"}}}}]
    },
    "basic authentication in a variable": {"env": {"AUTH_HEADER": "Basic bWU6cGxhbnRlZDI3planted"}},
    "a password joined to its flag": {"pre_cmd": "mysql -h db -u me -pplanted80 shop"},
    "a password behind a flag": {"pre_cmd": "redis-cli -h cache -a planted81 ping"},
    "a program that another runs": {"pre_cmd": "docker run --rm image mysqldump -pplanted82 shop"},
    "a login": {"setup_commands": ["docker login -u me -p planted83 registry"]},
    "a passphrase of openssl": {"pre_cmd": "openssl enc -d -pass pass:planted84 -in a -out b"},
    "a key of openssl": {"pre_cmd": "openssl enc -d -aes-256-cbc -k planted85 -in a"},
    "a user of a share": {"pre_cmd": "smbclient -U 'me%planted86' //h/s"},
    "a one-letter flag of a server": {"extra_args": ["-k", "planted-87654-key"]},
    "a joined flag of a server": {"extra_args": ["-kplanted-87654-key"]},
    "a one-letter flag in a command": {"server_cmd": "./serve -m model -k planted-87654-key"},
    "a code": {"login": {"mfa_code": "planted88", "recovery_codes": ["planted89"]}},
    "a session": {"config": {"session_id": "planted90", "PHPSESSID": "planted91"}},
    "a licence": {"container_env": {"LICENSE": "planted-1234-5678"}},
    "lists of keys": {"keys": ["planted-41234-a"], "tokens": {"alice": "planted-41234-b"}},
    "netrc": {"env": {"NETRC": "machine h login me password planted92"}},
    "netrc in lines": {"config": {"file": "machine h\n  login me\n  password planted92\n"}},
    "pgpass": {"env": {"LINES": "db:5432:shop:me:planted93"}},
    "YAML": {"config": {"file": "url: h\napi_key: planted94\nlist:\n  - password: 'planted 95'\n"}},
    "YAML in one line": {"params": {"conf": "{url: h, api_key: planted96, n: 1}"}},
    "YAML in blocks": {"params": {"conf": "a: 1\nsecret: |\n  planted97\n  planted98\nb: 2"}},
    "INI": {"params": {"conf": "[main]\nhost = h\npassword = planted99\n"}},
    "TOML": {"params": {"conf": 'host = "h"\napi_token = "planted100"\n'}},
    "XML": {"params": {"conf": '<c><password>planted101</password><db pwd="planted102"/></c>'}},
    "Python": {"params": {"conf": "{'api_key': 'planted103', 'n': 1}"}},
    "npmrc": {"params": {"conf": "//registry/:_authToken=planted104"}},
    "a secret as a name": {"api_keys": {"planted-51234-a": "alice", "planted-51234-b": "bob"}},
    "a token as a name": {"users": {"sk-planted210123456789abcdef": "alice"}},
    "a webhook of our own": {"webhook": {"url": "https://hooks.h/T00/planted-4711-08/go"}},
    "a webhook of Teams": {"webhook_url": "https://x.office.com/webhookb2/planted4711-a@b/c"},
    "a bot of Telegram": {
        "u": "https://api.telegram.org/bot123456789:AAplanted6abcdefghijklmnopqrstuv/x"
    },
    "a key in a prompt": {"system_prompt": "Use api_key=planted-4711-08 to call it"},
    "a password in a prompt": {"system_prompt": "The password is planted-4711-08."},
    "a header in a prompt": {"system_prompt": "curl -H 'X-Api-Key: planted-4711-08'"},
    "an authorization in a prompt": {"prompt": "Authorization: Bearer planted-4711-08"},
    "a key in a chat template": {"chat_template": "{% set api_key = 'planted-4711-08' %}{{ m }}"},
    "a key in a judge's template": {"template": "api_key: planted-4711-08\nGrade this."},
    "a token in a description": {"description": "login me / password: planted-4711-08"},
    "a private key in Base64": {
        "data": base64.b64encode(_PEM.format(kind="PRIVATE KEY").encode()).decode()
    },
    "a private key of PuTTY": {
        "k": "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\nplanted"
    },
    "a key of age": {"k": "AGE-SECRET-KEY-1planted" + "0Q" * 25},
    "both keys of AWS": {
        "aws": {"id": "AKIAIOSFODNN7EXAMPLE", "value": "planted/8Zq7XutnFEMI/K7MDENGbPxRfi5217341"}
    },
    "both keys of AWS in a text": {
        "s3": "AKIAIOSFODNN7EXAMPLE:planted/8Zq7XutnFEMI/K7MDENGbPxRfi521734"
    },
    "a share": {"mounts": ["//u:planted4711@share/x:/data"]},
    "a parameter with an escape": {"url": "https://h/?auth%5Ftoken=planted4711"},
    "a random parameter": {"url": "https://h/?t=planted8Zx81kQwe77Lp0a"},
    "a connection of Oracle": {"db": "jdbc:oracle:thin:me/planted4711@h:1521:db"},
    "a connection of Postgres": {"db": "host=h user=me password=planted-4711-08 dbname=d"},
    "a notebook": {"nb": '{"source": ["os.environ[\\"HF_TOKEN\\"] = \\"planted-4711-08\\"\\n"]}'},
    "a client's key": {"user": {"client-key-data": "planted4711"}},
    "a value of another name": {"note": "Bearer planted8Zx81kQwe77Lp"},
    "numbered names": {
        "HF_TOKEN2": "planted-4711-08",
        "KEY1": "planted-4711-08",
        "openai_key_1": "planted-4711-08",
    },
    "names in one word": {
        "usertoken": "planted",
        "rootpw": "planted",
        "privkey": "planted",
        "storepass": "planted",
    },
    "short names": {
        "creds": "planted-4711-08",
        "oauth": "planted-4711-08",
        "fwkey": "planted-4711-08",
    },
    "names of other languages": {"пароль": "planted", "密码": "planted", "kennwort": "planted"},
    "a default in nested references": {"headers": {"X-Own": "${A:-${B:-planted50}}"}},
}


@pytest.mark.parametrize("place", UNUSUAL)
def test_unusual_places_are_masked(place: str) -> None:
    shown = str(masked_config(UNUSUAL[place], []))
    assert "planted" not in shown and "521734" not in shown
    assert "***" in shown


def test_unusual_places_are_remembered_for_answers() -> None:
    own = secrets.token_hex(6)
    raw = {
        "headers": [["X-Own", f"pair-{own}"], {"name": "X-Other", "value": f"named-{own}"}],
        "more": {"extra_headers": f"X-Third: line-{own}"},
        "auth": {"username": "visible-user", "value": f"block-{own}"},
    }
    remember_config(raw, raw, {})
    assert (
        scrub(f"pair-{own} named-{own} line-{own} block-{own} visible-user")
        == "*** *** *** *** visible-user"
    )


def test_the_variable_that_a_setting_names_is_remembered() -> None:
    own = secrets.token_hex(6)
    environment = {"MINE": f"named-{own}", "PLACE": f"/data/{own}", "LICENSE": f"4711-lic-{own}"}
    raw = {
        "solver": {"api_key_env": "MINE", "folder_env": "PLACE"},
        "keys": ["${LICENSE}"],
        "api_keys": {f"name-{own}-1234": "alice"},
    }
    data = raw | {"keys": [environment["LICENSE"]]}
    remember_config(data, raw, environment)
    assert scrub(f"named-{own} 4711-lic-{own} name-{own}-1234") == "*** *** ***"
    assert scrub(f"/data/{own}") == f"/data/{own}"


def test_names_that_are_masked_stay_apart() -> None:
    names = {"planted-51234-a": "alice", "planted-51234-b": "bob"}
    assert masked_config({"api_keys": names}, []) == {"api_keys": {"***": "***", "***2": "***"}}


def test_a_masked_config_is_known_by_its_masks() -> None:
    data = {
        "pre_cmd": "export HF_TOKEN=***; echo *** done ***",
        "extra_env": {"STORE": "Server=h;Pwd=***"},
        "users": {"***": "alice"},
        "note": "*** done ***",
    }
    assert list(holds_mask(data)) == [("pre_cmd",), ("extra_env", "STORE"), ("users", "***")]


def test_a_private_key_is_found_by_its_lines() -> None:
    lines = [base64.b64encode(secrets.token_bytes(48)).decode() for _ in range(3)]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])
    data = {"container_env": {"CERTIFICATE": key}}
    remember_config(data, data, {})
    assert [
        line for line in lines if line in scrub(f"read {lines[0]}, then {lines[1]} and {lines[2]}")
    ] == []


PLAIN_SETTINGS = [
    {"headers": "Accept: application/json"},
    {"api_key_header": "X-Api-Key"},
    {"headers": [["Content-Type", "application/json"]]},
    {"auth": {"type": "basic", "username": "me"}},
    {"env": [{"name": "MODE", "value": "fast"}]},
    {"image": "registry/name:tag@sha256:9f86d081884c7d659a2feaa0c55ad015"},
    {"prompt": 'Call {"api_key": "YOUR_KEY"} and answer "token": "x"'},
    {"params": {"columns": "a=1;b=2", "function_signature": "f(x)", "threshold": 100_000.5}},
    {"command": ["docker", "run", "-u", "1000:1000", "-p", "8000:8000", "image"]},
    {"pre_cmd": "echo ready | tee log; set -euo pipefail; python -u run.py"},
    {"system_prompt": "- use the token"},
    {"pre_cmd": "mkdir -p out2024; pytest -k test_12345; ssh -p 2222 h; curl -k https://h"},
    {"command": ["docker", "run", "-p", "8000:8000", "-k", "5", "-p", "models/qwen2.5-72b"]},
    {"command": ["serve", "-p", "claude-3-5-sonnet-20241022", "-k", "top_50", "-P"]},
    {"keys": ["question", "choice_10"], "tokens": ["<pad>"], "license": "apache-2.0"},
    {"params": {"args": "++prompt_config=eval/aai/mcq-10choices"}},
    {"params": {"rubric": "Key: the answer is 4.\nToken: one word of it"}},
    {"params": {"note": "model: m\nurl: http://h:8000/v1\nmax_tokens: 512"}},
    {"judge": {"api_key": "JUDGE_API_KEY"}, "env_vars": {"HF_TOKEN": "host:HF_TOKEN"}},
    {"params": {"code": 'update(target=x, key="b")'}},
    {"system_prompt": "Say which password is strongest. Put api_key=YOUR_KEY_HERE and key: value."},
    {
        "metric": "pass@1",
        "pass_1": "mean-2024-10-05",
        "hotkey": "ctrl-1",
        "options": {"KEY=VALUE": "--x"},
    },
    {
        "webhook": "https://hooks.example.com/evaluations/done",
        "url": "https://h/?split=test&rev=main",
    },
    {"url": "https://h/?commit=0123456789abcdef0123456789abcdef01234567&access=public"},
    {"creds": "none", "api": "chat_completions", "access": "read-only", "master": "node-17"},
    {"limits": {"0123456789abcdef0123456789abcdef01234567": 1, "gpt-4o-mini-2024-07-18": 2}},
]


# Shapes of tokens: what stands before the part that nobody can guess, and how long that is.
TOKENS = (
    *(("SG.aB3dEf6hIj9kLm2n.", 24), ("ya29.", 40), ("hvs.", 24), ("dop_v1_", 64), ("shpat_", 32)),
    *(("sq0atp-", 22), ("SK", 32), ("pplx-", 48), ("xai-", 60), ("tgp_v1_", 40), ("fw_", 24)),
    *(("wandb_v1_", 40), ("lin_api_", 40), ("ntn_", 40), ("dapi", 32), ("rpa_", 40), ("figd_", 40)),
    *(("csk-", 48), ("jina_", 48), ("e2b_", 40), ("GOCSPX-", 28), ("whsec_", 32), ("pul-", 40)),
    *(("tskey-auth-k1-", 24), ("zpka_", 32), ("ABSK", 60), ("ATATT3", 60), ("ops_eyJ", 40)),
    *(("v2.local.", 60), ("eyJhbGciOiJkaXIifQ..aB3dEf6hI.", 20)),
)


@pytest.mark.parametrize(("prefix", "length"), TOKENS)
def test_tokens_are_known_by_their_shape(prefix: str, length: int) -> None:
    token = prefix + "0123456789abcdef" * 5
    token = token[: len(prefix) + length]
    if prefix.startswith("eyJhbG"):
        token += ".aB3dEf6hIj9k"
    shown = masked_config({"note": f"see {token} there"}, [])["note"]
    assert shown == "see *** there"


@pytest.mark.parametrize(
    "text",
    [
        "jdbc:oracle:a:b/",
        "//a:b",
        "key=",
        "eyJaaaaaaaaa.",
        "SG.",
        "AKIAAAAAAAAAAAAA ",
        "token is ",
        "a=\\",
    ],
)
def test_the_search_takes_time_in_proportion_to_the_text(text: str) -> None:
    data = {"note": text * (400_000 // len(text)), "system_prompt": text * (400_000 // len(text))}
    began = time.process_time()
    masked_config(data, [])
    assert time.process_time() - began < 10


@pytest.mark.parametrize("data", PLAIN_SETTINGS, ids=str)
def test_plain_settings_stay(data: dict) -> None:
    assert masked_config(data, []) == data
