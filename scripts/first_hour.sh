#!/usr/bin/env bash
# The first hour of a new user, on a bare Debian: README's first block, command by command, to a first result of one's own.
#   first_hour.sh [SUITE]     default: bookworm
# Needs root, mmdebstrap, a Debian mirror and a package index. pip's settings of this machine hold inside, too.
# In the place of the user's endpoint is the scripted server, at the address that README gives.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:-bookworm} python=${VENV:-.venv}/bin/python
[ "$(id -u)" = 0 ] || { echo "first-hour: changing into another system needs root" >&2; exit 1; }
command -v mmdebstrap >/dev/null || { echo "first-hour: apt-get install mmdebstrap" >&2; exit 1; }
folder=$(mktemp -d)
tree=$folder/debian server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT

echo "first-hour: a bare $suite"
mmdebstrap --quiet --variant=apt "$suite" "$tree"
git ls-files -z --cached --others --exclude-standard | tar c --null -T - | tar x --one-top-level="$tree/root/nel"
cp /etc/resolv.conf /etc/hosts "$tree/etc/"
settings=$(pip config list 2>/dev/null | sed -n "s/^[^.]*\.\([a-z-]*\)='\(.*\)'$/\1 = \2/p" | awk '!seen[$1]++')
# Folders that pip's settings name must be there as well; certificates elsewhere, because apt writes its own.
cert=$(sed -n 's/^cert = //p' <<<"$settings") folders=()
if [ -n "$cert" ]; then cp -L "$cert" "$tree/etc/pip.crt"; fi
printf '[global]\n%s\n' "${settings/"cert = $cert"/cert = /etc/pip.crt}" >"$tree/etc/pip.conf"
for setting in $settings; do
  place=${setting#file://}
  place=${place%/simple}
  if [[ $place = /* && -d $place ]]; then mkdir -p "$tree$place" && folders+=("$place"); fi
done

# The commands as a reader finds them: how Python is installed, then the first block.
mapfile -t commands < <("$python" - <<'PY'
import re
from pathlib import Path

text = Path("README.md").read_text()
print(re.search(r"on Debian: `([^`]+)`", text)[1])
print(re.search(r"```console\n(.*?)```", text, re.DOTALL)[1].strip())
PY
)
[ "${#commands[@]}" -le 5 ] || { echo "first-hour: ${#commands[@]} commands, at most five were promised" >&2; exit 1; }
port=$(printf '%s\n' "${commands[@]}" | sed -n 's/.*localhost:\([0-9]*\).*/\1/p' | head -1)
"$python" -c '
import sys, time
from nemo_evaluator.testing import ScriptedServer
with ScriptedServer("It is 4.", port=int(sys.argv[1])):
    time.sleep(3600)' "$port" &
server=$!

# One shell, as a person has it; apt asks nothing where nobody is.
{
  echo "set -e; cd /root/nel; export DEBIAN_FRONTEND=noninteractive; apt-get() { command apt-get -qq -y \"\$@\"; }"
  echo "command apt-get -qq update"
  for command in "${commands[@]}"; do
    printf 'echo "first-hour: \$ %s" >&2\nSECONDS=0\n%s\necho "first-hour: $SECONDS s" >&2\n' "${command//\"/\\\"}" "$command"
  done
} >"$tree/root/walk.sh"
begun=$SECONDS
# Mounts are of this command alone, and gone when it ends.
# shellcheck disable=SC2016
unshare -m bash -euc '
  tree=$1; shift
  mount --rbind /dev "$tree/dev"; mount -t proc proc "$tree/proc"
  for place; do mount --rbind "$place" "$tree$place"; mount -o remount,bind,ro "$tree$place"; done
  exec env -i HOME=/root TERM=dumb COLUMNS=80 PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin chroot "$tree" bash /root/walk.sh
' first-hour "$tree" "${folders[@]}" | tee "$folder/said"
for words in 'n ' ' 20 ' 'Wrong answers' 'expected'; do
  grep -q -- "$words" "$folder/said" || { echo "first-hour: the output lacks '$words'" >&2; exit 1; }
done
echo "first-hour: a first result with ${#commands[@]} commands in $((SECONDS - begun)) s"
