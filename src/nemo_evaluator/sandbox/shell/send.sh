# Pack the file or folder $1: the archive goes out on stdout, its digest on stderr.
# A failure of tar itself is told in words, since pipes lose it.
if [ -d "$1" ]; then cd "$1" || exit 3; set -- .
elif [ -e "$1" ] || [ -L "$1" ]; then cd "$(dirname "$1")" || exit 3; set -- "$(basename "$1")"
else echo "NEL-MISSING" >&2; exit 4; fi
{ { tar -c -f - -- "$1" || echo "NEL-TAR-FAILED" >&2; } | { tee /dev/fd/3 | sha256sum >&2; } 3>&1; }
