"""The standard way to carry an agent's work: a patch where the folder is a git repository, else an archive of it."""

from __future__ import annotations

import shlex

_CAPTURE = r"""
set -e
cd {workdir}
stage=$(mktemp -d)
base=$(cat /tmp/_nel_base_commit 2>/dev/null || true)
if [ -n "$base" ] && git rev-parse -q --verify "$base^{{commit}}" >/dev/null 2>&1; then
  top=$(git rev-parse --show-toplevel)
  cd "$top"
  git add -A -f .
  git diff --cached --binary --full-index "$base" > "$stage/_nel_patch.diff"
  echo git-diff > "$stage/_nel_mode"
else
  echo archive > "$stage/_nel_mode"
  tar -c --exclude=./.git -f "$stage/_nel_files.tar" .
fi
tar -c -C "$stage" -f /output/workspace.tar .
rm -rf "$stage"
"""
_APPLY = r"""
set -e
test -s /input/workspace.tar
stage=$(mktemp -d)
tar -x -C "$stage" -f /input/workspace.tar
cd {workdir}
if [ "$(cat "$stage/_nel_mode")" = git-diff ]; then
  cd "$(git rev-parse --show-toplevel)"
  if [ -s "$stage/_nel_patch.diff" ]; then
    git apply --binary "$stage/_nel_patch.diff" || git apply --3way "$stage/_nel_patch.diff"
  fi
else
  # What the agent deleted must be gone here too; a mount point itself cannot be.
  find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {{}} +
  tar -x -o -f "$stage/_nel_files.tar"
fi
rm -rf "$stage"
"""


def capture_command(workdir: str) -> str:
    """Shell text that writes ``/output/workspace.tar`` in the agent's sandbox."""
    return _CAPTURE.format(workdir=shlex.quote(workdir))


def apply_command(workdir: str) -> str:
    """Shell text that applies ``/input/workspace.tar`` in the verifier's sandbox."""
    return _APPLY.format(workdir=shlex.quote(workdir))
