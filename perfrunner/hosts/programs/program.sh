# shellcheck shell=sh
# A started process is three processes' work. START (ends at once) takes the lock and waits for the process registry entry.
# KEEPER leads a separate session, waits and records the exit status; it gives up the lock before it writes it, so
# a status together with a held lock means that orphans hold the lock. PROGRAM notes its own identity, then becomes the
# command: its pid is its process group. The lock's descriptor 9 is inherited by all that the command starts.
base=$1 entry=$2; shift 2
start_time=$(cut -d' ' -f22 /proc/$$/stat) && read -r boot_id </proc/sys/kernel/random/boot_id || exit 74
printf '%s, "pid": %s, "start_time": %s, "boot_id": "%s"}\n' "$entry" "$$" "$start_time" "$boot_id" \
  >"$base.json.tmp" && mv -f -- "$base.json.tmp" "$base.json" || exit 74
exec "$@"
