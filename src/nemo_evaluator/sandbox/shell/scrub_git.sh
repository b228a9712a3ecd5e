# Take the future out of the git repository at $1 before an agent sees it: commits after the base may hold the solution.
# The object store is made anew from what the base commit reaches, so nothing else can be left: not through other refs,
# reflogs, packs, alternates, worktrees or the stores of submodules. What is left is listed afterwards and compared.
set -u
began=$(date +%s)
cd "$1" 2>/dev/null || { echo "NEL_GIT_CLEANUP skipped reason=no_workdir wd=$1"; exit 0; }
export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
export GIT_CONFIG_KEY_1=protocol.file.allow GIT_CONFIG_VALUE_1=always
unset GIT_DIR GIT_WORK_TREE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_INDEX_FILE
command -v git >/dev/null 2>&1 || { echo "NEL_GIT_CLEANUP skipped reason=no_git"; exit 0; }
top=$(git rev-parse --show-toplevel 2>/dev/null) || { echo "NEL_GIT_CLEANUP skipped reason=not_a_git_repo"; exit 0; }
git rev-parse -q --verify HEAD >/dev/null 2>&1 || { echo "NEL_GIT_CLEANUP skipped reason=no_head"; exit 0; }

scrub() (
  cd "$1" || exit 3
  base=$(git rev-parse -q --verify HEAD) || exit 0
  gitdir=$(cd "$(git rev-parse --git-dir)" && pwd -P) || exit 3
  common=$(cd "$(git rev-parse --git-common-dir)" && pwd -P) || exit 3
  before=$(git rev-list --all --count 2>/dev/null || echo 0)
  new=$(mktemp -d "${TMPDIR:-/tmp}/nel-git.XXXXXX") || exit 3
  bare="$new/git"
  git init -q --bare "$bare" || exit 3
  # A pack of exactly what the base commit reaches, and of what the index holds beyond it.
  { echo "$base"; git ls-files -s | awk '$1 != "160000" {print $2}' | sort -u; } > "$new/want"
  git pack-objects -q --revs --stdout < "$new/want" > "$new/pack" || exit 3
  (cd "$bare" && git index-pack --stdin < "$new/pack" >/dev/null) || exit 3
  git --git-dir="$bare" update-ref refs/heads/_nel_work "$base" || exit 3
  git --git-dir="$bare" symbolic-ref HEAD refs/heads/_nel_work || exit 3
  shallow="$common/shallow"
  [ -f "$shallow" ] && cp "$shallow" "$bare/shallow"
  for key in user.name user.email core.autocrlf core.filemode core.symlinks core.ignorecase; do
    value=$(git config --get "$key" 2>/dev/null) && git --git-dir="$bare" config "$key" "$value"
  done
  git --git-dir="$bare" config core.bare false
  [ -d "$common/info" ] && [ -f "$common/info/exclude" ] && cp "$common/info/exclude" "$bare/info/exclude"
  cp "$gitdir/index" "$bare/index" 2>/dev/null
  rm -rf "$bare/hooks"
  # Every store that the old repository could still read from goes, wherever it lies.
  stores="$gitdir $common"
  for file in "$common/objects/info/alternates"; do
    [ -f "$file" ] && while IFS= read -r line; do
      case "$line" in '#'*|'') ;; /*) store=$line ;; *) store="$common/objects/$line" ;; esac
      [ -n "${store:-}" ] && [ -d "$store" ] && rm -rf "$store"
    done < "$file"
  done
  others=$(git worktree list --porcelain 2>/dev/null | sed -n 's/^worktree //p')
  printf '%s\n' "$others" | while IFS= read -r other; do
    [ -n "$other" ] && [ "$other" != "$(pwd -P)" ] && [ -f "$other/.git" ] && rm -f "$other/.git"
  done
  rm -rf "$gitdir" "$common" || exit 3
  rm -rf .git && mv "$bare" .git || exit 3
  rm -rf "$new"
  after=$(git rev-list --all --count) || exit 3
  git cat-file --batch-check --batch-all-objects | awk '$2 == "commit" {print $1}' | sort > .git/nel-have
  git rev-list "$base" | sort > .git/nel-want
  left=$(comm -23 .git/nel-have .git/nel-want | wc -l | tr -d ' ')
  rm -f .git/nel-have .git/nel-want
  git fsck --connectivity-only --no-dangling >/dev/null 2>&1; rc=$?
  elapsed=$(( $(date +%s) - began ))
  printf 'NEL_GIT_CLEANUP base=%s commits_before=%s commits_after=%s ' "$base" "$before" "$after"
  echo "non_ancestor_left=$left gc_rc=$rc elapsed_s=$elapsed"
  [ "$left" = 0 ] && [ "$rc" = 0 ] || exit 3
)

# Inner repositories first (submodules, nested clones): their stores may lie inside the outer one.
find "$top" -mindepth 2 -name .git -not -path "$top/.git/*" 2>/dev/null | awk '{print length, $0}' | sort -rn |
  cut -d' ' -f2- | while IFS= read -r inner; do
    folder=$(dirname "$inner")
    if git -C "$folder" rev-parse -q --verify HEAD >/dev/null 2>&1; then
      scrub "$folder" || exit 3
    else
      rm -rf "$inner"
    fi
  done || exit 3
scrub "$top"
