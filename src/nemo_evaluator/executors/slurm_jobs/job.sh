set -uo pipefail
# The first job gets no arguments; one that follows gets the job before it and, of a shard, its number.
previous=${1:-}
index=${2:-${SLURM_ARRAY_TASK_ID:-}}
folder=$root
if [ "$shards" -gt 0 ]; then
  folder=$root/shard_$index
  export NEL_SHARD_IDX=$index NEL_TOTAL_SHARDS=$shards
fi
mkdir -p "$folder/logs" && cd "$folder" || exit 1
# All logs of a job in one folder, with its number in their names.
ln -sfn ../nel_eval.log "logs/client-$SLURM_JOB_ID.log"
export NEL_OUTPUT_DIR=$folder NEL_INVOCATION_ID=$run_id PYTHONUNBUFFERED=1
next=
why=
worker_pid=

say() { printf '%(%F %T)T job %s: %s\n' -1 "$SLURM_JOB_ID" "$*" | tee -a nel_eval.log; }
number() { cat "$1" 2>/dev/null || echo 0; }

# How a job ended: the controller knows it for some minutes, the database for longer.
state_of() {
  local state
  state=$(scontrol -o show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p;q')
  [ -n "$state" ] || state=$(sacct -X -n -P -o State -j "$1" 2>/dev/null | head -n 1)
  echo "${state%% *}"
}

stopped() { [ -e "$root/.nel_stop" ] || [ -e .nel_stop ]; }

# Becomes a command, to be called in a subshell: the secrets are in the environment of that command only, and gone from
# the disk once no job needs them any more.
with_secrets() {
  if [ -r "$root/$secrets" ]; then
    set -a
    # shellcheck source=/dev/null
    . "$root/$secrets"
    set +a
    [ "$auto_resume$shards" != 00 ] || rm -f "$root/$secrets"
  fi
  activate
  exec "$@"
}

forget_secrets() {
  local n
  for ((n = 0; n < shards; n++)); do [ -e "$root/shard_$n/.nel_exit" ] || return 0; done
  rm -f "$root/$secrets"
}

# The run has come to an end that no further job would change.
settle() {
  echo "$1" >.nel_exit
  [ -z "$next" ] || scancel "$next"
  forget_secrets
}

stop_early() {
  say "$1"
  settle 130
  exit 0
}

# Seconds that earlier jobs took, counted when they end; one that was killed is counted by its start.
account() {
  local seconds=$1
  echo $(($(number .nel_accumulated_walltime) + (seconds < walltime ? seconds : walltime))) >.nel_accumulated_walltime
  rm -f .nel_job_start
}

follow() {
  local state tries size
  state=$(state_of "$previous")
  [ ! -e .nel_exit ] || exit 0
  if stopped || [ "$state" = CANCELLED ]; then stop_early "job $previous was cancelled; not resuming"; fi
  [ ! -s .nel_job_start ] || account $(($(date +%s) - $(number .nel_job_start)))
  if [ "$max_walltime" -gt 0 ] && [ "$(number .nel_accumulated_walltime)" -ge "$max_walltime" ]; then
    stop_early "max_walltime ($max_walltime s) is used up; nel eval resume goes on"
  fi
  size=$(cat ./*/journal.jsonl 2>/dev/null | wc -c)
  tries=$(($(number .nel_infra_retries) + 1))
  [ "$size" -le "$(number .nel_progress)" ] || tries=0
  echo "$tries" >.nel_infra_retries
  if [ "$tries" -gt "$max_retries" ]; then
    stop_early "no progress after $max_retries follow-up jobs (max_retries); nel eval resume tries again"
  fi
  say "follows job $previous (${state:-state unknown}); resuming"
  # The scheduler says that the job that held the folder is gone, so nobody has to wait for its heartbeat to stop.
  rm -f nel.lock
}

# Submitted before the work begins: after a node failure or a kill nobody could.
chain() {
  next=$(sbatch --parsable --dependency="afternotok:$SLURM_JOB_ID" "$root/nel_eval.sbatch" "$SLURM_JOB_ID" "$index")
  next=${next%%;*}
  if [ -n "$next" ]; then echo "$next" >>.nel_job_chain; else say "no follow-up job could be submitted"; fi
}

# Names and addresses: a name that the scheduler knows need not mean anything to the network.
nodes_of() {
  scontrol -o show node "$1" | sed -n 's/^NodeName=\([^ ]*\) .*NodeAddr=\([^ ]*\).*/\1@\2/p' | paste -sd, -
}

# Runs what the worker asks for in the folder that both see: it may be in a container, which has no srun.
serve() {
  local file name pid
  while [ -d "$relay" ]; do
    for file in "$relay"/*.start; do
      [ -e "$file" ] || continue
      name=${file%.start}
      mv "$file" "$name.sh"
      (
        bash "$name.sh" &
        echo $! >"$name.pid"
        wait $!
        echo $? >"$name.ended" && mv "$name.ended" "$name.exit"
      ) &
    done
    for file in "$relay"/*.stop; do
      pid=$(cat "${file%.stop}.pid" 2>/dev/null) || continue
      rm -f "$file"
      kill -TERM "$pid" 2>/dev/null || true
    done
    sleep 0.3
  done
}

# The last shard merges. Until it has, its follow-up job waits: one that is killed meanwhile is followed by one that merges.
merge_shards() {
  local n owner lock=$root/.merge_lock own=$root/.merge_lock-$SLURM_JOB_ID
  for ((n = 0; n < shards; n++)); do [ -e "$root/shard_$n/.shard_done" ] || return 0; done
  mkdir -p "$own" && echo "$SLURM_JOB_ID" >"$own/owner"
  # A folder takes the place of another one only when that is empty.
  if ! mv -T "$own" "$lock" 2>/dev/null; then
    rm -rf "$own"
    owner=$(cat "$lock/owner" 2>/dev/null)
    # Whoever began to merge is at it, unless the job is gone.
    if [ -e "$lock/.done" ] || [ -n "$(squeue -h -j "${owner:-0}" 2>/dev/null)" ]; then return 0; fi
    echo "$SLURM_JOB_ID" >"$lock/owner"
    rm -f "$root/nel.lock"
  fi
  (with_secrets "${step[@]}" "${merge[@]}") </dev/null >>"$root/nel_eval.log" 2>&1
  code=$?
  say "merged $shards shards: exit code $code"
  if [ "$code" -gt 128 ] && [ -n "$next" ] && ! stopped; then exit "$code"; fi
  echo "$code" >"$lock/.done"
}

trap 'why=walltime; [ -z "$worker_pid" ] || kill -USR1 "$worker_pid"' USR1
trap 'why=ended; [ -z "$worker_pid" ] || kill -USR1 "$worker_pid"' TERM

resume=()
if [ -n "$previous" ]; then
  follow
  resume=(--resume)
fi
date +%s >.nel_job_start
cat ./*/journal.jsonl 2>/dev/null | wc -c >.nel_progress
grep -qx "$SLURM_JOB_ID" .nel_job_chain 2>/dev/null || echo "$SLURM_JOB_ID" >>.nel_job_chain
[ "$auto_resume" = 0 ] || chain
place
relay=$(mktemp -d "$folder/.services-XXXXXX")
export NEL_SERVICE_RELAY=$relay
serve &
with_secrets "${step[@]}" "${worker[@]}" "${resume[@]}" </dev/null >>nel_eval.log 2>&1 &
worker_pid=$!
while :; do
  wait "$worker_pid"
  code=$?
  # A signal ends the wait, not the worker.
  kill -0 "$worker_pid" 2>/dev/null || break
done
rm -rf "$relay"
account "$SECONDS"
case $code in
  0 | 3 | 4)
    ended=$code
    if [ "$shards" -gt 0 ]; then
      touch .shard_done
      merge_shards
    fi
    settle "$ended"
    ;;
  126 | 127)
    say "cannot run ${worker[0]} on this node; cluster.conda_env or cluster.eval_image say where nel is installed"
    settle "$code"
    ;;
  1 | 2) settle "$code" ;;
  *)
    if stopped || [ "$auto_resume" = 0 ]; then
      settle "$code"
    else
      say "the run was cut short (${why:-exit code $code}); job $next continues it"
    fi
    ;;
esac
exit "$code"
