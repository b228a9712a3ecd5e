#!/usr/bin/env bash
# Installs the real parts that tests use; what is there is left alone. Parts from apt need root: otherwise they are
# skipped, with the command for an administrator. Downloads and trees go to .parts (or NEL_PARTS_DIR), the model to
# where `nel models` keeps it.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/fail.sh
. scripts/fail.sh
parts=${NEL_PARTS_DIR:-$PWD/.parts}
bin=${VENV:-.venv}/bin
attempt mkdir -p "$parts/bin" "$parts/log"
# An ordinary user's path on Debian lacks the sbin folders, where sshd and dockerd are.
export PATH=$parts/bin:$PATH:/usr/sbin:/sbin
root=false
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && root=true
failed=0

say() { printf '  %-14s %s\n' "$1" "$2"; }

# part NAME CHECK INSTALL: run INSTALL unless CHECK succeeds, with its output in a log.
part() {
  local name=$1 check=$2 install=$3 began=$SECONDS
  if $check; then say "$name" "here"; return; fi
  if $install >"$parts/log/$name.log" 2>&1 && $check; then
    say "$name" "installed ($((SECONDS - began)) s)"
  else
    said=$(cat "$parts/log/$name.log")
    explain "the part '$name' could not be installed (all lines: $parts/log/$name.log)"
  fi
}

# part_as_root: the same for what apt or a root file system brings.
part_as_root() {
  if ! $root && ! $2; then say "$1" "skipped: needs root and apt${4:-}"; return; fi
  part "$@"
}

# The commands and libraries that tests use, each with the package that brings it.
packages=(bwrap=bubblewrap dockerd=docker.io docker=docker-cli iptables=iptables ip=iproute2 chromium=chromium
  mmdebstrap=mmdebstrap git=git openssl=openssl ssh=openssh-client sshd=openssh-server
  libatomic.so.1=libatomic1 tinyproxy=tinyproxy haproxy=haproxy shellcheck=shellcheck)
here() {
  case $1 in
    *.so.*) ldconfig -p | grep -F "$1" >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}
# Before Debian 13 the docker command came with the engine.
package_here() { if [ "$1" = docker-cli ] && ! apt-cache show "$1" >/dev/null 2>&1; then echo docker.io; else echo "$1"; fi; }
missing_packages() {
  local pair
  for pair in "${packages[@]}"; do
    here "${pair%%=*}" || package_here "${pair#*=}"
  done | sort -u
}
have_packages() { [ -z "$(missing_packages)" ]; }
get_packages() {
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2046
  apt-get update -qq &&
    apt-get install -y -qq --no-install-recommends $(missing_packages) ca-certificates fonts-dejavu-core &&
    { have_packages || { echo "still missing after the installation: $(missing_packages | xargs)"; return 1; }; }
}

have_libraries() { [ "$bin/../.with-parts" -nt pyproject.toml ] && [ "$bin/../.with-parts" -nt scripts/requirements.txt ]; }
get_libraries() { bash scripts/setup.sh dev,local,parts; }

have_model() { "$bin/nel" models path smollm2-135m >/dev/null 2>&1; }
get_model() { "$bin/nel" models pull smollm2-135m; }

have_runsc() { command -v runsc >/dev/null; }
get_runsc() {
  local work=$parts/apt options debian
  # Debian's archive as this machine names it, mirror or not.
  debian=$(apt-get indextargets --format '$(REPO_URI)' | grep -m1 '/debian/$') || return 1
  mkdir -p "$work/sources" "$work/state/lists/partial" "$work/cache/archives/partial" "$work/tree"
  printf 'Types: deb\nURIs: %s\nSuites: bookworm-backports\nComponents: main\nSigned-By: %s\n' "$debian" \
    /usr/share/keyrings/debian-archive-keyring.gpg >"$work/sources/backports.sources"
  # An apt of its own, so that the system keeps its suites.
  options=(-qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/sources" -o "Dir::State=$work/state"
    -o "Dir::Cache=$work/cache" -o Dir::State::status=/var/lib/dpkg/status -o APT::Sandbox::User=root
    -o Acquire::Check-Valid-Until=false)
  (cd "$work" && apt-get "${options[@]}" update && apt-get "${options[@]}" download runsc && dpkg -x runsc_*.deb tree) &&
    install -m 755 "$work/tree/usr/bin/runsc" "$parts/bin/runsc"
}

have_llama_server() { command -v llama-server >/dev/null; }
get_llama_server() {
  rm -rf "$parts/llama"
  mmdebstrap --quiet --variant=essential --include=llama.cpp-tools --aptopt='Acquire::Check-Valid-Until "false"' \
    sid "$parts/llama" || return 1
  # The binary needs a newer libc than bookworm's, hence a root of its own, with the model's folder at /mnt.
  cat >"$parts/bin/llama-server" <<SH
#!/bin/sh
for word; do
  shift
  [ "\$previous" = --model ] && { folder=\$(dirname "\$word"); word=/mnt/\$(basename "\$word"); }
  set -- "\$@" "\$word"
  previous=\$word
done
exec bwrap --ro-bind "$parts/llama" / --ro-bind "\${folder:-/mnt}" /mnt --proc /proc --dev /dev --tmpfs /tmp \\
  --die-with-parent llama-server "\$@"
SH
  chmod 755 "$parts/bin/llama-server"
}

have_tree() { [ -s "$parts/images/python-bookworm.tar" ]; }
get_tree() {
  mkdir -p "$parts/images"
  mmdebstrap --quiet --variant=essential --include=python3,git,procps,ca-certificates bookworm "$parts/images/new.tar" &&
    mv "$parts/images/new.tar" "$parts/images/python-bookworm.tar"
}

have_biome() { bash scripts/javascript.sh find; }
get_biome() { bash scripts/javascript.sh install; }
have_slurm() { bash scripts/slurm.sh check; }
get_slurm() { bash scripts/slurm.sh install; }
have_apptainer() { bash scripts/apptainer.sh check; }
get_apptainer() { bash scripts/apptainer.sh install; }

part_as_root packages have_packages get_packages \
  ". An administrator: apt-get update && apt-get install -y --no-install-recommends $(missing_packages | xargs)"
# Waits for the network and for two cores overlap well.
pids=()
(part libraries have_libraries get_libraries && part model have_model get_model && part biome have_biome get_biome) & pids+=($!)
(part_as_root runsc have_runsc get_runsc && part_as_root llama_server have_llama_server get_llama_server) & pids+=($!)
(part_as_root slurm have_slurm get_slurm && part_as_root tree have_tree get_tree &&
  part_as_root apptainer have_apptainer get_apptainer) & pids+=($!)
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done

exit $failed
