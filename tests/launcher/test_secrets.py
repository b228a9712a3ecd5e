"""What ``nel run`` keeps of a config that holds secrets itself: references, in a file that only its owner can read."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
import yaml
from nel_support import Nel, Serve, command_lines_with

from nemo_evaluator.testing import Say

# In no other process's command line.
OWN = f"{os.getpid():08d}"
HEADER = f"planted-header-{OWN}"
COOKIE = f"planted-cookie-{OWN}"
IN_URL = f"planted-url-{OWN}"
VARIABLE = f"planted-variable-{OWN}"
OVERRIDE = f"planted-override-{OWN}"
ALL = (HEADER, COOKIE, IN_URL, VARIABLE, OVERRIDE)
_CONFIG = """
defaults:
  - execution: local
  - deployment: none
  - _self_
execution:
  output_dir: results
target:
  api_endpoint:
    url: {url}/chat/completions?api_key={in_url}
    model_id: m
env_vars:
  SETTING: host:PLANTED
  DB_PASS: "lit:{variable}"
evaluation:
  nemo_evaluator_config:
    config: {{params: {{parallelism: 2, max_new_tokens: 24, temperature: 0}}}}
    target:
      api_endpoint:
        adapter_config:
          headers_to_add:
            X-Anything: {header}
            Cookie: "session={cookie}"
            Accept: application/json
  tasks:
    - name: quickstart
"""


@pytest.fixture(autouse=True)
def _open_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def _written(nel: Nel, url: str) -> None:
    text = _CONFIG.format(url=url, in_url=IN_URL, variable=VARIABLE, header=HEADER, cookie=COOKIE)
    (nel.folder / "config.yaml").write_text(text)
    nel.env |= {"XDG_DATA_HOME": str(nel.folder / "data"), "PLANTED": VARIABLE}


def _files_with_secrets(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "config.yaml"]
    return [
        f"{path}: {value}" for path in files for value in ALL if value.encode() in path.read_bytes()
    ]


def _kept_config(nel: Nel) -> Path:
    (kept,) = (nel.folder / "data" / "nel" / "run_configs").iterdir()
    return kept


def test_a_run_keeps_references_and_the_server_gets_the_secrets(nel: Nel, serve: Serve) -> None:
    server = serve(Say("6"))
    _written(nel, server.url)
    override = "++evaluation.nemo_evaluator_config.target.api_endpoint.adapter_config.headers_to_add.X-More"
    process = nel.start("run", "--config", "config.yaml", "--wait", "-o", f"{override}={OVERRIDE}")
    deadline = time.monotonic() + 180
    lines: list[str] = []
    while process.poll() is None and time.monotonic() < deadline:
        lines += command_lines_with(OVERRIDE)
        time.sleep(0.01)
    out, err = process.communicate(timeout=60)
    assert server.count > 0, err
    seen = server.requests[0].headers
    assert seen["x-anything"] == HEADER
    assert seen["x-more"] == OVERRIDE
    assert seen["cookie"] == f"session={COOKIE}"
    kept = _kept_config(nel)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert "${NEL_SECRET_" in kept.read_text()
    assert "application/json" in kept.read_text()
    assert _files_with_secrets(nel.folder) == []
    assert [value for value in ALL if value in out + err] == []
    # Others see it for as long as it takes to replace the arguments.
    assert len(set(lines)) <= 1


def test_a_refused_run_keeps_none_either(nel: Nel) -> None:
    _written(nel, "http://127.0.0.1:9/v1")
    wrong = "++evaluation.nemo_evaluator_config.config.params.parallelism=0"
    done = nel("run", "--config", "config.yaml", "-v", "-o", wrong, code=1)
    assert stat.S_IMODE(_kept_config(nel).stat().st_mode) == 0o600
    assert _files_with_secrets(nel.folder) == []
    assert [value for value in ALL if value in done.stdout + done.stderr] == []


def test_a_converted_config_names_the_variables_that_it_needs(nel: Nel) -> None:
    _written(nel, "http://127.0.0.1:9/v1")
    done = nel("run", "--config", "config.yaml", "--convert", "new.yaml")
    data = yaml.safe_load((nel.folder / "new.yaml").read_text())
    (stage,) = data["services"]["model"]["proxy"]["interceptors"]
    header = stage["config"]["headers_to_add"]["X-Anything"]
    assert header.startswith("${NEL_SECRET_")
    assert header.strip("${}") in done.stderr
    assert _files_with_secrets(nel.folder) == []
