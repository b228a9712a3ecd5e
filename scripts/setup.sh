#!/usr/bin/env bash
# Makes the virtual environment, or adds extras to it: setup.sh EXTRAS. Needs Python and a package index.
# uv installs in seconds what takes pip minutes; pip stays, because `nel models pull` fetches with it.
set -euo pipefail
cd "$(dirname "$0")/.."
extras=$1
venv=${VENV:-.venv}
# Checked versions with their checksums; `PINS=` takes the newest instead.
pins=${PINS-scripts/requirements.txt}
# shellcheck source=scripts/fail.sh
. scripts/fail.sh

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))'; }

choose_python() {
  local name found=()
  for name in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    command -v "$name" >/dev/null || continue
    python=$name
    fits "$name" && return
    found+=("$name is $("$name" --version 2>&1)")
  done
  [ ${#found[@]} -gt 0 ] || fail "${PYTHON:-python3} is not installed" "apt-get install python3, or make PYTHON=/path/to/python3.12"
  fail "Python 3.11, 3.12 or 3.13 is needed, and ${found[*]}" "install one and name it: make PYTHON=/path/to/python3.12"
}

# unpack PACKAGE: Debian's package of this machine's own suite in $unpacked, fetched and unpacked without being root.
unpack() {
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
  mkdir -p "$unpacked/lists/partial" "$unpacked/archives/partial"
  (
    cd "$unpacked" && own=(-qq -o "Dir::State::Lists=$unpacked/lists" -o "Dir::Cache=$unpacked")
    # As root, apt would fetch as a user of its own, who may not write here.
    [ "$(id -u)" != 0 ] || own+=(-o APT::Sandbox::User=root)
    [ -n "$(ls lists/*Packages* 2>/dev/null)" ] || apt-get "${own[@]}" update || exit 1
    apt-get "${own[@]}" download "$1" && dpkg -x "$1"_*.deb .
  )
}

# Debian's python3 lacks ensurepip.
pip_from_debian() {
  unpack python3-pip-whl && "$venv/bin/python" "$(echo "$unpacked"/usr/share/python-wheels/pip-*.whl)/pip" "${quietly[@]}" pip
}

# xllamacpp's wheel takes the OpenMP library from the system, and a bare Debian has none.
openmp_from_debian() {
  unpack libgomp1 && mkdir -p "$venv/lib/nel" && cp "$unpacked"/usr/lib/*/libgomp.so.1 "$venv/lib/nel/"
}

make_venv() {
  choose_python
  [ ! -e "$venv" ] || [ -f "$venv/pyvenv.cfg" ] || fail "$venv is there and is no virtual environment" "name another: make VENV=..."
  attempt "$python" -m venv --clear --without-pip "$venv"
}

unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
quietly=(install --quiet --no-warn-script-location --disable-pip-version-check)
pip=("$venv/bin/python" -m pip)
echo "setting up $venv ($extras)"
if ! "$venv/bin/python" -c '' 2>/dev/null; then
  make_venv
elif ! fits "$venv/bin/python"; then
  fail "$venv has $("$venv/bin/python" --version), and 3.11, 3.12 or 3.13 is needed" "make clean, or make VENV=... for another"
fi
if ! "${pip[@]}" --version >/dev/null 2>&1; then
  said=$("$venv/bin/python" -m ensurepip --upgrade 2>&1) || said=$(pip_from_debian 2>&1) ||
    explain "pip could not be had for $("$venv/bin/python" --version)" "apt-get install python3-venv"
fi
if [ ! -x "$venv/bin/uv" ]; then
  if [ -n "$pins" ]; then awk '/^uv==/,!/\\$/' "$pins"; else echo uv; fi >"$unpacked/uv.txt"
  attempt "${pip[@]}" "${quietly[@]}" -r "$unpacked/uv.txt"
fi
# uv reads none of pip's settings; the index is the one that matters behind a company's wall.
index=${PIP_INDEX_URL:-$("${pip[@]}" config get global.index-url 2>/dev/null || true)}
[ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
if ! said=$("$venv/bin/uv" pip install --quiet --python "$venv/bin/python" ${pins:+-c "$pins" -b "$pins"} -e ".[$extras]" 2>&1); then
  case $said in *'No space left'* | *'ash mismatch'* | *'No solution found'*) explain "the libraries could not be installed" ;; esac
  echo "uv could not install the libraries; pip is trying (this takes minutes): $(tail -1 <<<"$said")" >&2
  # pip takes no editable installation where checksums are given.
  if [ -n "$pins" ]; then sed -n 's/ \\$//; /^[a-z].*==/p' "$pins"; fi >"$unpacked/pins.txt"
  attempt "${pip[@]}" "${quietly[@]}" -c "$unpacked/pins.txt" -e ".[$extras]"
fi
if [[ ,$extras, == *,local,* ]] && ! said=$("$venv/bin/python" -m nemo_evaluator.services._xllamacpp_server --help 2>&1); then
  case $said in
    *libgomp*) said=$(openmp_from_debian 2>&1) || explain "xllamacpp needs libgomp.so.1" "apt-get install libgomp1" ;;
    *) explain "xllamacpp cannot be used here" ;;
  esac
fi
for extra in ${extras//,/ }; do touch "$venv/.with-$extra"; done
