# Root by key alone, forwarding and nothing else, on port $1. After $2 seconds the sidecar ends, and the task with it.
set -e
apk add --no-cache openssh-server netcat-openbsd
ssh-keygen -A
mkdir -p -m 700 /root/.ssh
printf '%s\n' "$SSH_PUBLIC_KEY" > /root/.ssh/authorized_keys
chmod 600 /root/.ssh/authorized_keys
/usr/sbin/sshd -p "$1" -o PermitRootLogin=prohibit-password -o PasswordAuthentication=no \
  -o AllowTcpForwarding=yes -o PermitListen=any -o PermitTTY=no -o X11Forwarding=no
exec sleep "$2"
