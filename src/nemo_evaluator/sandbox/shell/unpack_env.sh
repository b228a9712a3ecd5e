# Run what stands after -- with the variables named before it, which travelled under names that nobody else sets.
while [ "$1" != -- ]; do
  eval "export $1=\"\$NEL_ENV_$1\""; unset "NEL_ENV_$1"; shift
done
shift
exec "$@"
