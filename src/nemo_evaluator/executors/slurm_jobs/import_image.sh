# Import the image $1 into the file $2, which appears when it is whole.
command -v enroot >/dev/null || { echo 'enroot: command not found' >&2; exit 127; }
if [ -e "$2" ]; then echo 'already there'; du -h "$2"; exit 0; fi
mkdir -p -- "$(dirname "$2")" && rm -f "$2.part" && enroot import -o "$2.part" -- "$1" >&2 && mv "$2.part" "$2" && du -h "$2"
