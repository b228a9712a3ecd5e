# Read by slurm.sh: the accounting database (for sacct) of a cluster, where its programs are installed.

accounting_installed() { command -v slurmdbd >/dev/null && command -v mariadbd >/dev/null; }

accounting() { [ "${NEL_SLURM_ACCOUNTING:-1}" = 1 ] && accounting_installed; }

# accounting_lines PORT: what slurm.conf says of it.
accounting_lines() {
  accounting || return 0
  printf '%s\n' AccountingStorageType=accounting_storage/slurmdbd AccountingStorageHost=127.0.0.1 \
    "AccountingStoragePort=$1" "AccountingStoragePass=$run/munge/socket" JobAcctGatherType=jobacct_gather/linux \
    JobAcctGatherFrequency=task=1
}

# start_accounting PORT: MariaDB on the port after it; both on loopback, with a password that nobody else knows.
start_accounting() {
  accounting || return 0
  local password sql=(mariadb --no-defaults --socket="$run/db.sock")
  password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  mariadb-install-db --no-defaults --user=root --datadir="$run/db" --auth-root-authentication-method=normal \
    --skip-test-db >"$run/log/database" 2>&1
  setsid mariadbd --no-defaults --user=root --datadir="$run/db" --socket="$run/db.sock" --pid-file="$run/mariadbd.pid" \
    --bind-address=127.0.0.1 --port=$(($1 + 1)) </dev/null >>"$run/log/database" 2>&1 9>&- &
  for _ in $(seq 200); do
    if "${sql[@]}" -e 'select 1' >/dev/null 2>&1; then break; fi
    sleep 0.1
  done
  "${sql[@]}" -e "create user slurm@'127.0.0.1' identified by '$password'; grant all on slurm.* to slurm@'127.0.0.1';
    drop user if exists root@'127.0.0.1'; drop user if exists root@'::1'; drop user if exists root@'$(hostname)'"
  (umask 077 && cat >"$run/slurmdbd.conf") <<CONF
AuthType=auth/munge
AuthInfo=socket=$run/munge/socket
DbdHost=$(hostname)
DbdAddr=127.0.0.1
DbdPort=$1
CommunicationParameters=NoInAddrAny
SlurmUser=root
PidFile=$run/slurmdbd.pid
LogFile=$run/log/slurmdbd
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$(($1 + 1))
StorageUser=slurm
StoragePass=$password
StorageLoc=slurm
CONF
  slurmdbd </dev/null >>"$run/log/start" 2>&1 9>&-
  for _ in $(seq 100); do
    if sacctmgr -n show cluster >/dev/null 2>&1; then break; fi
    sleep 0.1
  done
  sacctmgr -i add cluster nel >>"$run/log/start" 2>&1
}

stop_accounting() {
  end "$run/slurmdbd.pid" slurmdbd
  end "$run/mariadbd.pid" mariadbd
}
