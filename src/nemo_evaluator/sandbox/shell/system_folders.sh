# Folders of the system are never part of a workspace, also where the working directory is the root: they come from the
# image. $skip holds the words that make tar leave them out, $leave those that make find do so.
skip= leave=
if [ "$1" = / ]; then
  for name in bin boot dev etc input lib lib32 lib64 libx32 logs media mnt opt output proc run sbin solution sys \
      tests tmp usr var .dockerenv; do
    skip="$skip --exclude=./$name" leave="$leave ! -name $name"
  done
fi
