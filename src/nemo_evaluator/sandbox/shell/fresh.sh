# Run "$@" in a folder of its own, with the files that come on stdin and nothing else.
# The exit code is the program's own, with its folder gone, whatever it did in there.
folder=$(mktemp -d) || exit 125
cd "$folder" || exit 125
tar -x -o -f - || exit 125
"$@" < /dev/null
code=$?
cd /
rm -rf "$folder"
exit $code
