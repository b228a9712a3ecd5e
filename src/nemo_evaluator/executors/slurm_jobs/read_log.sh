# Print what is new in the logs of the folder $1, each as \0NAME\0SIZE\0TEXT: the last $2 lines if that is given, else from
# the byte that stands after each name ($4 $5, ...). A job whose worker never came to write has said why in its own log,
# of which everything from the byte $3 is new.
cd "$1" 2>/dev/null || exit 0
lines=$2 job_log=$3
shift 3
new() { if [ -n "$lines" ]; then tail -n "$lines" "$1"; else tail -c +"$2" "$1" | head -c $((size - $2 + 1)); fi; }
emit() { [ -s "$1" ] || return 1; size=$(stat -c %s "$1"); printf '\0%s\0%s\0' "$1" "$size"; new "$@" | tr -d '\0'; }
while [ $# -gt 1 ]; do emit "$1" "$2"; shift 2; done
[ -n "${size-}" ] || emit "$(ls -t logs/slurm-*.log 2>/dev/null | head -n 1)" "$job_log"
true
