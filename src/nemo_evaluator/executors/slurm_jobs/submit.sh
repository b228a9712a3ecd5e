# JOB ARRAY SECRETS OLD...: submits the script JOB, as an array of jobs if ARRAY names any, after what an earlier attempt
# left (OLD) is gone. A job that is refused leaves no SECRETS behind.
job=$1 array=$2 secrets=$3
shift 3
rm -rf "$@"
id=$(sbatch --parsable ${array:+"--array=$array"} "$job") || {
  [ -z "$secrets" ] || rm -f "$secrets"
  exit 1
}
# Into the file first: nobody may be listening any more.
echo "${id%%;*}" >>.nel_submitted
echo "${id%%;*}"
