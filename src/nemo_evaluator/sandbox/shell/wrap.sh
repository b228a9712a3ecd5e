# Runs a command and marks its begin and its end on both streams.
#
# Both markers end their line, because some clients pass on whole lines only.
# Until the command has run, only names that nobody else uses: assigning to an exported one would change it for the
# command. The secret comes as the first line of stdin and is only in this shell's memory: not in its arguments, not in
# an environment, not in a file or pipe that the command could open. 1024 and 2147483647 are _ROOM and _PRIME of
# _wrapper_output.py.
nel_token=$1 nel_rest=$2 nel_own=$3 nel_cwd=$4 nel_stdin=$5 nel_kills=0
shift 5
read -r nel_factor nel_offset
[ "$nel_stdin" = yes ] || exec < /dev/null
for nel_stream in 1 2; do printf '\000NEL-BEGIN %s\000\n' "$nel_token" >&$nel_stream; done
# How many processes the kernel killed because memory ran out: in the command's own group where the host's tree is visible, else in the
# container's, which is the root of the tree that it sees.
nel_oom() {
  [ -r /proc/self/cgroup ] || return 0
  while IFS=: read -r _ nel_key nel_value; do
    case $nel_key in memory) nel_v1=$nel_value ;; '') nel_v2=$nel_value ;; esac
  done < /proc/self/cgroup
  for nel_file in "/sys/fs/cgroup/memory$nel_v1/memory.oom_control" "/sys/fs/cgroup$nel_v2/memory.events" \
      /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$nel_file" ] || continue
    while read -r nel_key nel_value; do [ "$nel_key" != oom_kill ] || nel_kills=$nel_value; done < "$nel_file"
    return 0
  done
}
nel_oom
nel_before=$nel_kills
if cd "$nel_cwd"; then "$@"; code=$?; else code=126; fi
nel_oom
token=$nel_token keep=all
set -- /proc/[0-9]*
if [ "$nel_rest" = kill ] && [ $# -gt "$nel_own" ]; then
  #include reap
  set -- /proc/[0-9]*
fi
left=$(($# - nel_own)) kills=$((nel_kills - nel_before))
[ $left -ge 0 ] || left=0
tag=$(((nel_factor * (code * 1048576 + kills % 1024 * 1024 + left % 1024) + nel_offset) % 2147483647))
for stream in 1 2; do
  printf '\000NEL-END %s %s %s %s %s\000\n' "$token" $code $((kills % 1024)) $((left % 1024)) $tag >&$stream
done
[ "$nel_rest" != hold ] || exec sleep 2147483647 > /dev/null 2>&1
exit 0
