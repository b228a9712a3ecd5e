# Waits for our end, however it comes, then kills what is left of our cluster (its agents would look for it for most of
# a minute) and removes its folder $1, which is in the arguments of each of its processes or among its open files: those
# that give themselves a title write it over their arguments and their environment.
cat >/dev/null
for path in /proc/[0-9]*; do
  [ "${path#/proc/}" != $$ ] || continue
  case $({ tr '\0' ' ' <"$path/cmdline"; } 2>/dev/null) in
    *"$1"*) ;;
    ray::*) ls -l "$path/fd" 2>/dev/null | grep -qF "$1" || continue ;;
    *) continue ;;
  esac
  kill -9 "${path#/proc/}" 2>/dev/null
done
rm -rf "$1"
