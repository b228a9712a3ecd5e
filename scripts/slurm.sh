#!/usr/bin/env bash
# A SLURM cluster of four nodes on this machine, for tests: controller, nodes and munge of its own, on loopback only.
#   slurm.sh run COMMAND...   run a command with a cluster; stop the cluster afterwards if nobody else uses it
#   slurm.sh start | stop     keep one running | end it
#   slurm.sh env              print the lines for `eval`
#   slurm.sh install | check  install what it needs from apt | say whether it is there
# One per machine and user. Four nodes (4 CPUs, 4000 MB, 2 false GPUs each), partitions batch (all of them, default),
# gpu (the last two) and low, whose jobs give way to those of high. Jobs that ended are listed in jobcomp.txt, and by sacct
# where slurmdbd and mariadb-server are installed (NEL_SLURM_ACCOUNTING=0: not). slurm_pyxis.c serves --container-*.
set -euo pipefail
cd "$(dirname "$0")/.."
parts=${NEL_PARTS_DIR:-$PWD/.parts}
# Short, because the path of a socket may not be longer than about 100 characters.
run=/tmp/nel-slurm-$(id -u)
export SLURM_CONF=$run/slurm.conf
# shellcheck source=scripts/slurm_accounting.sh
. scripts/slurm_accounting.sh

installed() {
  local command
  for command in slurmctld slurmd srun munged gcc; do command -v "$command" >/dev/null || return 1; done
  [ -e /usr/include/slurm/spank.h ] && [ -e /usr/include/stdio.h ]
}

up() {
  [ -s "$SLURM_CONF" ] &&
    [ "$(timeout 10 sinfo -h -N -p batch -t idle,mix,alloc -o %N 2>/dev/null | wc -l)" = 4 ]
}

# The first of ten ports in a row on which nobody listens.
free_ports() {
  local base port
  for base in $(seq 17100 100 18900); do
    for port in $(seq "$base" $((base + 9))); do
      if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then continue 2; fi
    done
    echo "$base"
    return
  done
  return 1
}

node_names() { sed -n 's/^NodeName=\([^[]*\).*/\11 \12 \13 \14/p' "$SLURM_CONF"; }

# Limits need control groups; SLURM 22.05 without systemd can use those of version 1.
confinement() {
  if [ -w /sys/fs/cgroup/memory ] && [ -w /sys/fs/cgroup/freezer ]; then
    printf '%s\n' CgroupMountpoint=/sys/fs/cgroup CgroupPlugin=cgroup/v1 ConstrainRAMSpace=yes ConstrainSwapSpace=yes \
      >"$run/cgroup.conf"
    printf '%s\n' ProctrackType=proctrack/cgroup TaskPlugin=task/cgroup
  else
    printf '%s\n' ProctrackType=proctrack/linuxproc TaskPlugin=task/none
  fi
}

configure() {
  local host prefix
  # Control groups go by the names of nodes, and a cluster in another namespace has them too.
  prefix=$(printf 'x%04xn' $RANDOM)
  base=$(free_ports) || { echo "slurm: no free ports" >&2; return 1; }
  host=$(hostname)
  cat >"$run/slurm.conf" <<CONF
ClusterName=nel
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$run/munge/socket
CredType=cred/munge
SlurmctldPort=$base
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation=$run/state
SlurmdSpoolDir=$run/spool/%n
SlurmctldPidFile=$run/slurmctld.pid
SlurmdPidFile=$run/slurmd-%n.pid
SlurmctldLogFile=$run/log/slurmctld
SlurmdLogFile=$run/log/slurmd-%n
$(confinement)
PlugStackConfig=$run/plugstack.conf
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=2,batch_sched_delay=0
MpiDefault=none
ReturnToService=2
DefMemPerCPU=100
KillWait=2
MinJobAge=3600
SlurmdTimeout=10
JobCompType=jobcomp/filetxt
JobCompLoc=$run/jobcomp.txt
$(accounting_lines $((base + 5)))
GresTypes=gpu
NodeName=$prefix[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((base + 1))-$((base + 4))] CPUs=4 RealMemory=4000 Gres=gpu:2
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=batch Nodes=$prefix[1-4] Default=YES MaxTime=INFINITE PreemptMode=OFF
PartitionName=gpu Nodes=$prefix[3-4] MaxTime=INFINITE PreemptMode=OFF
PartitionName=low Nodes=$prefix[1-4] MaxTime=INFINITE PriorityTier=1 GraceTime=30
PartitionName=high Nodes=$prefix[1-4] MaxTime=INFINITE PriorityTier=9 PreemptMode=OFF
CONF
  mknod "$run/gpu0" c 1 3
  mknod "$run/gpu1" c 1 3
  echo "Name=gpu File=$run/gpu[0-1]" >"$run/gres.conf"
}

# The test image as a folder, owned by the user that stands for root inside containers. It lies beside the cluster: that
# user may not be let into the folder of the checkout.
container_image() {
  local tree=$parts/images/python-bookworm.tar image=$run/images/nel-test+python+bookworm
  mkdir -p "$image"
  [ ! -s "$tree" ] || tar -C "$image" --exclude='./dev/*' -xf "$tree"
  chown -hR 5128000:5128000 "$image"
}

containers() {
  container_image
  mkdir -p "$run/bin" "$run/enroot"
  gcc -shared -fPIC -O1 -Wall -Werror -o "$run/pyxis.so" scripts/slurm_pyxis.c
  echo "required $run/pyxis.so $run/enroot $run/images" >"$run/plugstack.conf"
  # All that is asked of enroot: to forget containers.
  cat >"$run/bin/enroot" <<ENROOT
#!/bin/sh
[ "\$1 \$2" = "remove -f" ] || { echo "enroot: \$* is not served here" >&2; exit 1; }
shift 2
code=0
for name; do
  [ -d "$run/enroot/\$SLURMD_NODENAME/\$name" ] || { echo "[ERROR] No such file or directory: \$name" >&2; code=1; }
  rm -rf "$run/enroot/\$SLURMD_NODENAME/\$name"
done
exit \$code
ENROOT
  chmod 755 "$run/bin/enroot"
}

start_cluster() {
  [ "$(id -u)" = 0 ] || { echo "slurm: starting a cluster needs root" >&2; return 1; }
  installed || { echo "slurm: not installed; make parts" >&2; return 1; }
  stop_cluster
  mkdir -p -m 755 "$run" "$run/users" "$run/state" "$run/log" "$run/spool"
  mkdir -p -m 711 "$run/munge"
  (umask 377 && head -c 1024 /dev/urandom >"$run/munge/key")
  local node base
  configure && containers || return 1
  munged --key-file="$run/munge/key" --socket="$run/munge/socket" --pid-file="$run/munge.pid" \
    --log-file="$run/log/munged" --seed-file="$run/munge/seed" </dev/null >"$run/log/start" 2>&1 9>&-
  start_accounting $((base + 5)) || return 1
  (
    export PATH=$run/bin:$PATH
    slurmctld
    for node in $(node_names); do slurmd -N "$node"; done
  ) </dev/null >>"$run/log/start" 2>&1 9>&-
  for _ in $(seq 100); do
    if up; then return 0; fi
    sleep 0.1
  done
  echo "slurm: the nodes did not come up; last lines of $run/log:" >&2
  tail -n 5 "$run"/log/* >&2
  return 1
}

# Two who ask at once get one cluster.
ensure_cluster() {
  (
    flock 9
    # One that others use may just be slow to answer.
    for _ in 1 2 3; do if up || ! used; then break; fi; done
    up || start_cluster
    touch "$run/users/$1"
  ) 9>"$run.lock"
}

# End a process by the file that holds its number, if the number still is that process.
end() {
  local pid
  [ -s "$1" ] || return 0
  pid=$(cat "$1")
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] || return 0
  kill "$pid" 2>/dev/null || return 0
  for _ in $(seq 50); do
    case $(sed -n 's/^State:\s*\(.\).*/\1/p' "/proc/$pid/status" 2>/dev/null) in ''|Z) return 0 ;; esac
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
}

# Jobs first: what they run would outlive the daemons.
end_jobs() {
  local jobs
  jobs=$(timeout 5 squeue -h -o %A) || return 0
  [ -n "$jobs" ] || return 0
  # shellcheck disable=SC2086
  timeout 5 scancel $jobs || return 0
  for _ in $(seq 100); do
    [ -n "$(timeout 5 squeue -h -t running,completing)" ] || return 0
    sleep 0.1
  done
}

stop_cluster() {
  [ -d "$run" ] || return 0
  local node names=
  if [ -s "$SLURM_CONF" ]; then
    end_jobs 2>/dev/null
    names=$(node_names)
  fi
  for node in $names; do end "$run/slurmd-$node.pid" slurmd; done
  end "$run/slurmctld.pid" slurmctld
  stop_accounting
  end "$run/munge.pid" munged
  for node in $names; do
    find /sys/fs/cgroup/*/"slurm_$node" -depth -type d -exec rmdir {} \; 2>/dev/null || true
  done
  rm -rf "$run"
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
  used || stop_cluster
}

case ${1:-} in
  run)
    shift
    if installed && [ "$(id -u)" = 0 ] && ensure_cluster $$; then
      export PATH=$run/bin:$PATH
      trap leave EXIT
      trap 'exit 130' INT
      trap 'exit 143' TERM
    else
      unset SLURM_CONF
    fi
    "$@"
    ;;
  start)
    ensure_cluster kept
    echo "cluster of four nodes; eval \"\$(scripts/slurm.sh env)\""
    ;;
  stop) rm -f "$run/users/kept"; stop_cluster ;;
  env) if up; then echo "export SLURM_CONF=$SLURM_CONF PATH=$run/bin:\$PATH"; fi ;;
  check) installed && accounting_installed ;;
  install)
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge libslurm-dev gcc \
      libc6-dev slurmdbd mariadb-server
    ;;
  *) sed -n '2,9p' "$0"; exit 1 ;;
esac
