#!/usr/bin/env bash
# A Ray cluster on this machine, for tests: a head without workers and three nodes of two CPUs, on loopback only.
#   ray.sh run COMMAND...   run a command with a cluster (RAY_ADDRESS and its token are set); end the cluster afterwards
#   ray.sh start | stop     keep one running | end it
#   ray.sh env              print the line for `eval`
# One per machine and user. Nodes are ended by their process numbers: `ray stop` would end everybody's.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${VENV:-.venv}/bin
# Where this is set, every process of every node would compile Ray's libraries anew, which outlasts its patience.
unset PYTHONDONTWRITEBYTECODE
# Short, because the path of a socket may not be longer than about 100 characters.
run=/tmp/nel-ray-$(id -u)
# Ports from 10002 to 19999 are for Ray's workers.
port=${NEL_RAY_PORT:-26379}
# Whoever joins has to know the cluster's token.
export RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$run/token

up() { [ -s "$run/pids" ] && kill -0 "$(head -n 1 "$run/pids")" 2>/dev/null && (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }

# node NAME FLAGS...: one node in a process group of its own, whose number is noted. Ray gives a node half a minute to
# start, which may not be enough on a busy machine: it is tried again.
node() {
  local name=$1
  shift
  setsid timeout --foreground 12h bash -c 'for try in 1 2 3 4; do "$@"; done' - "$bin/ray" start --block \
    --node-ip-address 127.0.0.1 --object-store-memory 100000000 --disable-usage-stats "$@" >"$run/$name.log" 2>&1 </dev/null &
  echo $! >>"$run/pids"
}

start_cluster() {
  local number
  [ -x "$bin/ray" ] || { echo "ray: not installed; make parts" >&2; return 1; }
  stop_cluster
  mkdir "$run" && chmod 700 "$run"
  od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$run/token"
  node head --head --port "$port" --num-cpus 0 --include-dashboard false --temp-dir "$run/t"
  wait_for up || return 1
  # One after another: nodes that start at the same moment get in each other's way.
  for number in 1 2 3; do
    node "node$number" --address "127.0.0.1:$port" --num-cpus 2
    wait_for has_all_nodes || return 1
  done
}

has_all_nodes() { timeout 30 "$bin/ray" status --address "127.0.0.1:$port" 2>/dev/null | grep -F "/$((2 * number)).0 CPU" >/dev/null; }

wait_for() {
  local until=$((SECONDS + 300)) pid
  while [ $SECONDS -lt $until ]; do
    "$1" && return 0
    while read -r pid; do kill -0 "$pid" 2>/dev/null || break 2; done <"$run/pids"
    sleep 1
  done
  echo "ray: the cluster did not start; last lines of its logs:" >&2
  tail -n 5 "$run"/*.log >&2
  return 1
}

stop_cluster() {
  [ -s "$run/pids" ] || return 0
  local pid
  while read -r pid; do kill -9 -- "-$pid" 2>/dev/null || true; done <"$run/pids"
  rm -rf "$run"
}

case ${1:-} in
  run)
    shift
    if ! up; then
      start_cluster
      trap stop_cluster EXIT
      trap 'exit 130' INT
      trap 'exit 143' TERM
    fi
    RAY_ADDRESS=127.0.0.1:$port "$@"
    ;;
  start) up || start_cluster; echo "cluster at 127.0.0.1:$port; eval \"\$(scripts/ray.sh env)\"" ;;
  stop) stop_cluster ;;
  env) if up; then echo "export RAY_ADDRESS=127.0.0.1:$port RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$run/token"; fi ;;
  *) sed -n '2,6p' "$0"; exit 1 ;;
esac
