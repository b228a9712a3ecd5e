#!/usr/bin/env bash
# Apptainer for tests, in a root of its own: bookworm has no package, and sid's needs a newer libc.
#   apptainer.sh install   the tree, a command in .parts/bin, and the test image as .parts/images/python-bookworm.sif
#   apptainer.sh check     whether they are there
set -euo pipefail
cd "$(dirname "$0")/.."
parts=${NEL_PARTS_DIR:-$PWD/.parts}
tree=$parts/apptainer
image=$parts/images/python-bookworm

case ${1:-} in
  check) [ -x "$parts/bin/apptainer" ] && [ -s "$image.sif" ] ;;
  install)
    rm -rf "$tree" "$parts/bin/apptainer"
    mkdir -p "$parts/bin"
    mmdebstrap --quiet --variant=essential --include=apptainer,squashfuse,fuse-overlayfs \
      --aptopt='Acquire::Check-Valid-Until "false"' sid "$tree"
    # A root without CAP_SYS_RESOURCE cannot hand on all capabilities, and there may be no systemd to ask for groups.
    sed -i 's/^root default capabilities = .*/root default capabilities = no/; s/^systemd cgroups = .*/systemd cgroups = no/' \
      "$tree/etc/apptainer/apptainer.conf"
    cp /etc/hosts "$tree/etc/hosts"
    touch "$tree/etc/localtime"
    # The tree's own programs, and everything else of this machine where it always is.
    cat >"$parts/bin/apptainer" <<SH
#!/bin/sh
set -- --chdir "\$PWD" /usr/bin/apptainer "\$@"
for folder in /*; do
  case \$folder in
    /bin | /boot | /etc | /lib* | /lost+found | /sbin | /usr | /var | /dev) ;;
    *) [ -L "\$folder" ] || [ ! -d "\$folder" ] || set -- --bind "\$folder" "\$folder" "\$@" ;;
  esac
done
exec bwrap --bind "$tree" / --dev-bind /dev /dev --cap-add ALL "\$@"
SH
    chmod 755 "$parts/bin/apptainer"
    rm -rf "$image.new" "$image.sif"
    mkdir "$image.new"
    tar -C "$image.new" --exclude='./dev/*' -xf "$image.tar"
    # Without compression: it is read once or twice, from a disk nearby.
    "$parts/bin/apptainer" build --mksquashfs-args "-noI -noD -noF -noX" "$image.sif" "$image.new"
    rm -rf "$image.new"
    ;;
  *) sed -n '2,4p' "$0"; exit 1 ;;
esac
