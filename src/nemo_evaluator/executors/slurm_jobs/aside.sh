# Sets aside what an earlier run left, so that nobody takes it for this one's. $1 is the number of shards, $2 not empty
# when an unfinished run is to go, too, $3 the pattern of the files that nel writes: whatever else is there stays.
if [ -n "$2" ] || [ -e .merge_lock/.done ]; then
  stamp=$(date -u +%Y%m%dT%H%M%SZ)
  for folder in shard_*; do
    if [ ! -d "$folder" ] || [ "${folder#shard_}" -lt "$1" ]; then continue; fi
    mkdir -p "previous/$stamp"
    mv "$folder" "previous/$stamp/"
  done
  for journal in */journal.jsonl shard_*/*/journal.jsonl; do
    [ -e "$journal" ] || continue
    task=${journal%/*}
    mkdir -p "$task/previous/$stamp"
    find "$task" -mindepth 1 -maxdepth 1 -regextype posix-extended -regex ".*/($3)" -exec mv -t "$task/previous/$stamp" {} +
  done
fi
