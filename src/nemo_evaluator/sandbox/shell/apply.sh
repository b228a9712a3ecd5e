# Apply /input/workspace.tar to $1.
set -e
#include system_folders
test -s /input/workspace.tar
stage=$(mktemp -d)
tar -x -C "$stage" -f /input/workspace.tar
cd "$1"
if [ "$(cat "$stage/_nel_mode")" = git-diff ]; then
  cd "$(git rev-parse --show-toplevel)"
  if [ "$PWD" = / ]; then echo "a patch of the whole system" >&2; exit 1; fi
  if [ -s "$stage/_nel_patch.diff" ]; then
    git apply --binary "$stage/_nel_patch.diff" || git apply --3way "$stage/_nel_patch.diff"
  fi
else
  # What the agent deleted must be gone here too; a mount point itself cannot be.
  find . -mindepth 1 -maxdepth 1 ! -name .git $leave -exec rm -rf {} +
  tar -x -o $skip -f "$stage/_nel_files.tar"
fi
# Compiled copies of source files are no work, and a changed one runs in place of a source that nobody changed.
cat > "$stage/drop" <<'END'
find "$@" -name __pycache__ -type d -prune -exec rm -rf {} +
END
find . -mindepth 1 -maxdepth 1 $leave -type d -exec sh "$stage/drop" {} +
rm -rf "$stage"
