# Kill what carries the number of the command $token and, in a process space of our own, what $keep does not name.
#
# Processes carry the number of their command in the environment, and a command's end takes along those that carry its
# number. What carries none is touched only where process 1 is our own, or the init of an Apptainer instance: there, and
# only there, every process we can see belongs to the sandbox. Without a mark and with a parent outside (0) is a command
# that is just being let in: it gets its mark in a moment, and is left alone. Three rounds, since a process may fork
# between the look and the kill.
[ -n "$token" ] || exit 125
mark_of() { { tr '\0' '\n' < "/proc/$1/environ"; } 2>/dev/null | sed -n 's/^NEL_EXEC=//p' | head -n 1; }
parent_of() { sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null; }
ours=
[ "$(mark_of 1)" != main ] || ours=yes
read -r init < /proc/1/comm
[ "$init" != appinit ] || ours=yes
for round in 1 2 3; do
  hit=
  for path in /proc/[0-9]*; do
    pid=${path#/proc/}
    if [ "$pid" = 1 ] || [ "$pid" = $$ ]; then continue; fi
    mark=$(mark_of "$pid")
    if [ "$mark" != "$token" ]; then
      [ "$ours" = yes ] || continue
      [ -n "$mark" ] || [ "$(parent_of "$pid")" != 0 ] || continue
      case "$keep" in all) [ -z "$mark" ] || continue ;; *" ${mark:-?} "*) continue ;; esac
    fi
    kill -9 "$pid" 2>/dev/null && hit=1
  done
  [ -n "$hit" ] || break
done
