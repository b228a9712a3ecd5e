#!/usr/bin/env bash
# A private Docker engine for tests, where no engine is reachable and we are root.
#   docker.sh run COMMAND...   run a command with an engine; stop the engine afterwards if nobody else uses it
#   docker.sh start | stop     keep one running | end it
#   docker.sh env              print the DOCKER_HOST line for `eval`
# One engine per machine and user: two would fight over one bridge and one set of firewall chains.
set -euo pipefail
cd "$(dirname "$0")/.."
parts=${NEL_PARTS_DIR:-$PWD/.parts}
# Short, because the path of a socket may not be longer than about 100 characters.
run=/tmp/nel-docker-$(id -u)
host=unix://$run/docker.sock

reachable() { command -v docker >/dev/null && timeout 10 docker version >/dev/null 2>&1; }

private_reachable() { [ -S "$run/docker.sock" ] && DOCKER_HOST=$host reachable; }

# What a stopped or killed engine leaves: its containerd, its mounts, its files.
clear_run() {
  local left=$run/exec/containerd/containerd.pid
  if [ -f "$left" ]; then kill -9 "$(cat "$left")" 2>/dev/null || true; fi
  awk -v under="$run/" 'index($2, under) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount -l
  rm -rf "$run"
}

start_engine() {
  [ "$(id -u)" = 0 ] || { echo "docker: no engine is reachable, and starting one needs root" >&2; return 1; }
  command -v dockerd >/dev/null || { echo "docker: dockerd is not installed; make parts" >&2; return 1; }
  clear_run
  mkdir -p -m 700 "$run/users" "$parts/docker"
  local runtimes='{}' word
  if [ -x "$parts/bin/runsc" ]; then
    runtimes="{\"runsc\": {\"path\": \"$parts/bin/runsc\", \"runtimeArgs\": [\"--network=none\", \"--platform=systrap\"]}}"
  fi
  echo "{\"runtimes\": $runtimes}" >"$run/daemon.json"
  setsid dockerd --config-file "$run/daemon.json" --data-root "$parts/docker/data" --exec-root "$run/exec" \
    --pidfile "$run/pid" -H "$host" >"$parts/docker/dockerd.log" 2>&1 </dev/null &
  word=$!
  for _ in $(seq 300); do
    private_reachable && return 0
    kill -0 "$word" 2>/dev/null || break
    sleep 0.1
  done
  echo "docker: the engine did not start; last lines of $parts/docker/dockerd.log:" >&2
  tail -5 "$parts/docker/dockerd.log" >&2
  return 1
}

stop_engine() {
  [ -f "$run/pid" ] || return 0
  local pid
  pid=$(cat "$run/pid")
  kill "$pid" 2>/dev/null || true
  for _ in $(seq 150); do
    [ -f "$run/pid" ] || break
    sleep 0.1
  done
  [ ! -f "$run/pid" ] || kill -9 "$pid" 2>/dev/null || true
  clear_run
}

used() {
  local note
  for note in "$run"/users/*; do
    [ -e "$note" ] || continue
    case ${note##*/} in
      kept) return 0 ;;
      *) kill -0 "${note##*/}" 2>/dev/null && return 0; rm -f "$note" ;;
    esac
  done
  return 1
}

leave() {
  rm -f "$run/users/$$"
  used || stop_engine
}

case ${1:-} in
  run)
    shift
    if reachable; then exec "$@"; fi
    if private_reachable || start_engine; then
      export DOCKER_HOST=$host
      touch "$run/users/$$"
      trap leave EXIT
      trap 'exit 130' INT
      trap 'exit 143' TERM
    fi
    "$@"
    ;;
  start)
    if reachable; then echo "an engine is reachable already"; exit 0; fi
    private_reachable || start_engine
    touch "$run/users/kept"
    DOCKER_HOST=$host bash scripts/images.sh
    echo "engine at $host; eval \"\$(scripts/docker.sh env)\""
    ;;
  stop) rm -f "$run/users/kept"; stop_engine ;;
  env) if reachable || ! private_reachable; then exit 0; fi; echo "export DOCKER_HOST=$host" ;;
  *) sed -n '2,6p' "$0"; exit 1 ;;
esac
