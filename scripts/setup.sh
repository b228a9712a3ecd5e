#!/usr/bin/env bash
# Makes the virtual environment: setup.sh EXTRAS [VENV]. Uses uv (seconds) where pip can fetch it, else pip (minutes).
set -euo pipefail
cd "$(dirname "$0")/.."
extras=$1
venv=${2:-.venv}
python=${PYTHON:-python3}

if [ ! -x "$venv/bin/python" ]; then
  "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || {
    echo "Python 3.11, 3.12 or 3.13 is needed; name it with PYTHON=..." >&2
    exit 1
  }
  "$python" -m venv "$venv"
fi
pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check)
if [ -x "$venv/bin/uv" ] || "${pip[@]}" uv; then
  "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" -e ".[$extras]" && exit 0
  echo "uv could not install it; trying pip" >&2
fi
"${pip[@]}" -e ".[$extras]"
