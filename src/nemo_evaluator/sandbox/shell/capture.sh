# Write the work at $1 to /output/workspace.tar: a patch where it is a git repository, else an archive.
set -e
#include system_folders
cd "$1"
# What an agent left running is held while its files are read, where every process we see is the sandbox's own.
if tr '\0' '\n' < /proc/1/environ 2>/dev/null | grep -qx NEL_EXEC=main; then
  keep=" 1 " pid=$$
  while [ "${pid:-0}" -gt 1 ]; do
    keep="$keep$pid " pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status")
  done
  for path in /proc/[0-9]*; do
    case "$keep" in *" ${path#/proc/} "*) ;; *) kill -STOP "${path#/proc/}" 2>/dev/null || true ;; esac
  done
fi
stage=$(mktemp -d)
# Whatever else an agent left in these places could be a pipe, which nobody else ever opens.
base=
if [ -f /tmp/_nel_base_commit ]; then base=$(head -c 100 /tmp/_nel_base_commit || true); fi
rm -rf /output/workspace.tar
top=$(git rev-parse --show-toplevel 2>/dev/null || true)
# A repository that is the whole system is no workspace: a patch of it could hold folders of the system.
if [ -n "$base" ] && [ "$top" != / ] && git rev-parse -q --verify "$base^{commit}" >/dev/null 2>&1; then
  cd "$top"
  git add -A -f .
  git diff --cached --binary --full-index "$base" > "$stage/_nel_patch.diff"
  echo git-diff > "$stage/_nel_mode"
else
  echo archive > "$stage/_nel_mode"
  tar -c --exclude=./.git $skip -f "$stage/_nel_files.tar" .
fi
tar -c -C "$stage" -f /output/workspace.tar .
rm -rf "$stage"
