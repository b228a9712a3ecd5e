# What the scheduler and the files of the run in the folder $1 say; the other words are numbers of its jobs.
# A shard that waits has no folder yet.
cd "$1" 2>/dev/null || gone=yes
shift
ids=$({ echo "$@"; [ -n "${gone-}" ] || cat .nel_submitted .nel_job_chain shard_*/.nel_job_chain 2>/dev/null; } | xargs | tr ' ' ,)
[ -z "$ids" ] || found=$(squeue -t all -r -h -j "$ids" -o 'job|%F|%K|%A|%T|%r|%N|%M' 2>/dev/null) ||
  squeue -h -o '' >/dev/null 2>&1 || echo silent
[ -z "$ids" ] || [ -n "$found" ] || found=$(sacct -X -n -P -j "$ids" -o JobID,JobIDRaw,State 2>/dev/null |
  sed 's/^\([0-9]*\)_\{0,1\}\([0-9]*\)[^|]*|\([^|]*\)|\([A-Z_]*\).*/job|\1|\2|\3|\4|||/')
printf '%s\n' "${found-}"
[ -z "${gone-}" ] || exit 0
[ ! -e .nel_stop ] || echo stop
[ ! -e nel.lock ] || echo lock
for file in shard_*/nel.lock; do [ ! -e "$file" ] || echo lock; done
for file in .nel_exit shard_*/.nel_exit; do [ ! -e "$file" ] || echo "exit|$file|$(cat "$file")"; done
[ ! -e .merge_lock/.done ] || echo "merged|$(cat .merge_lock/.done)"
for file in nel_eval.log shard_*/nel_eval.log; do [ ! -s "$file" ] || echo "last|$(tail -n 1 "$file")"; done
