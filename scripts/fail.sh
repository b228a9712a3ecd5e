# Read by the other scripts: what went wrong, and what mends it.

# fail SENTENCE FIX
fail() {
  printf '%s\n  fix: %s\n' "$1" "$2" >&2
  exit 1
}

# explain SENTENCE [FIX]: the end of a command that said $said, with the fix for what it said if that is known.
explain() {
  local fix=${2:-see the lines above}
  tail -5 <<<"$said" >&2
  case $said in
    *'No space left'*) fix="free some space: the virtual environment takes 1 GB, with all parts 4 GB (df -h . /tmp)" ;;
    *'ash mismatch'* | *'DO NOT MATCH THE HASHES'*)
      fix="the index serves other files than those that were checked: ask who keeps it; make PINS= takes what it has" ;;
    *'No solution found'*) fix="make PINS= takes the newest versions; make lock then pins them" ;;
    *ermission\ denied* | *'Read-only file system'*) fix="clone into a folder that $(id -un) may write to, or make VENV=$HOME/nel-venv" ;;
    *'CERTIFICATE_VERIFY_FAILED'* | *UnknownIssuer*) fix="name your site's certificates: export SSL_CERT_FILE=... PIP_CERT=..." ;;
    *resol* | *'Network is unreachable'* | *onnection* | *'timed out'*)
      fix="connect to the network, or name an index that can be reached: export PIP_INDEX_URL=..." ;;
  esac
  fail "$1" "$fix"
}

# attempt COMMAND...: silent when it works, explained when it does not.
attempt() {
  local said
  said=$("$@" 2>&1) || explain "this failed: $*"
}
