# shellcheck shell=sh disable=SC2086
# A process's stat line is split into words on purpose.
# alive: the leader itself lives (same start time, same boot, no zombie). grouped: something of its group lives.
# holders: the processes, of whatever group or session, that still have the lock's descriptor.
# ours: the group may be signalled: its leader is ours and holds our lock, or the leader is gone and a holder of it is a
# member. A process registry entry alone never ends a process, no matter who wrote it.
base=$1 pid=$2 start_time=$3 boot_id=$4; shift 4
stat_of() { { read -r line </proc/"$1"/stat; } 2>/dev/null || return 1; set -f; line=${line##*) }; }
booted() { read -r now </proc/sys/kernel/random/boot_id; [ "$now" = "$boot_id" ]; }
alive() { booted && stat_of "$pid" && is_leader $line; }
is_leader() { [ "$1" != Z ] && [ "${20}" = "$start_time" ]; }
is_zombie() { [ "$1" = Z ]; }
is_member() { [ "$1" != Z ] && [ "$3" = "$pid" ]; }
grouped() {
  kill -0 "-$pid" 2>/dev/null || return 1
  alive && return 0
  set +f
  for entry in /proc/[0-9]*; do stat_of "${entry#/proc/}" && is_member $line && return 0; done
  return 1
}
locked() { [ -e "$base.lock" ] && ! flock -n "$base.lock" true; }
holders() {
  set +f
  find /proc/[0-9]*/fd -lname "$base.lock" 2>/dev/null | cut -d/ -f3 | sort -nu
}
# Also if somebody has removed the work directory, and the lock with it.
holds() { [ -n "$(find "/proc/$1/fd" -lname "$base.lock" -o -lname "$base.lock (deleted)" 2>/dev/null)" ]; }
ours() {
  booted || return 1
  if stat_of "$pid"; then
    if is_leader $line; then holds "$pid"; return; fi
    is_zombie $line || return 1
  fi
  locked || return 1
  for holder in $(holders); do stat_of "$holder" && is_member $line && return 0; done
  return 1
}
# On a busy host the keeper may wait seconds for the CPU; without an entry there is none to wait for.
status() {
  tries=0 patience=1  # seconds
  [ ! -e "$base.json" ] || patience=10
  until [ -e "$base.status" ]; do
    tries=$((tries + 1))
    if ! booted || [ $tries -gt $((patience * 50)) ]; then echo lost; return; fi
    sleep 0.02
  done
  cat -- "$base.status"
}
