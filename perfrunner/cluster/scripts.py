"""The POSIX shell programs that run on a host. Each is one `sh -c` with its parameters as arguments, never pasted in.

Exit statuses of our own: 70 did not come up, 73 a log cannot be opened, 74 files cannot be written or arrived
damaged, 75 in use, 76 refused.
"""

from __future__ import annotations

NOT_UP, NO_LOG, BAD_FILE, IN_USE, REFUSED = 70, 73, 74, 75, 76

# Ends what follows on the command line when standard input ends: sshd closes it when the channel or the link goes.
# The shell is its session's and group's leader (sshd saw to that), so the group is $$. The command's own standard
# input is empty. `exit $?` turns a death by signal into 128 + n, which SSH libraries would lose.
TIED = """
exec 3<&0
( trap '' TERM HUP; read -r _ <&3; kill -TERM -$$; sleep 2; kill -KILL -$$ ) >/dev/null 2>&1 </dev/null &
watchdog=$!
exec 3<&- </dev/null
"$@"
status=$?
kill -KILL $watchdog
exit $status
"""

# As TIED, for a command that reads standard input: its end is the command's own business.
FED = '"$@"; exit $?'

# --- files: $1 path, $2 sha256, $3 mode -------------------------------------------------------------------------
HAS_FILE = """
[ "$(sha256sum <"$1")" = "$2  -" ] 2>/dev/null && [ "$(stat -c %a -- "$1")" = "$3" ]
"""

# Both clear their own rests when the link goes in the middle: hence no death by SIGPIPE while they complain.
PUT_FILE = """
trap '' PIPE
mkdir -p -- "$(dirname -- "$1")" || exit 74
umask 077
part="$1.part.$$"
trap 'rm -f -- "$part"' EXIT
cat >"$part" || exit 74
[ "$(sha256sum <"$part")" = "$2  -" ] || { echo "$1 arrived incomplete" >&2; exit 74; }
chmod "$3" "$part" && mv -f -- "$part" "$1" || exit 74
"""

# The first $size bytes, as they were when asked for; their sha256 and size go before them, on one line of 80 bytes.
GET_FILE = """
size=$(stat -L -c %s -- "$1") || exit 74
sum=$(head -c "$size" -- "$1" | sha256sum) || exit 74
printf '%s %14d\\n' "${sum%% *}" "$size"
exec head -c "$size" -- "$1"
"""
GET_FILE_HEADER = 64 + 1 + 14 + 1

# $1 directory of artifacts: for each its last use (seconds since 1970), its size in KiB and its name.
LIST_ARTIFACTS = """
cd -- "$1" 2>/dev/null || exit 0
for dir in */; do
  [ -d "$dir" ] || continue
  echo "$(stat -c %Y -- "$dir") $(du -sk -- "$dir" | cut -f1) ${dir%/}"
done
"""

# $1 directory, $2 sha256 of its list of sums. Files that are not listed do not matter.
HAS_TREE = """
cd -- "$1" 2>/dev/null || exit 1
[ "$(sha256sum <.sha256sums)" = "$2  -" ] 2>/dev/null && sha256sum -c --status --strict .sha256sums
"""

PUT_TREE = """
trap '' PIPE
rm -rf -- "$1".part.* "$1".old.*
part="$1.part.$$" old="$1.old.$$"
mkdir -p -- "$part" || exit 74
trap 'rm -rf -- "$part" "$old"' EXIT
tar -xf - -C "$part" || exit 74
( cd -- "$part" && [ "$(sha256sum <.sha256sums)" = "$2  -" ] && sha256sum -c --quiet --strict .sha256sums ) >&2 ||
  { echo "$1 arrived incomplete" >&2; exit 74; }
if [ -e "$1" ]; then mv -T -- "$1" "$old" || exit 74; fi
mv -T -- "$part" "$1" || exit 74
"""

# $1 work directory, $2 what goes. Links are resolved first, so none leads out.
REMOVE_TREE = """
inside=$(realpath -m -- "$1") && path=$(realpath -m -- "$2") || exit 74
case "$path" in
  "$inside"/?*) rm -rf -- "$path" ;;
  *) echo "$path is not inside the work directory $inside" >&2; exit 76 ;;
esac
"""

# $1 work directory; `~` is the user's home, `%u` the number of the user. Prints the real path. It must be the user's
# own: what another may write to, or put a link in the place of, could make us end or remove what is not ours.
OPEN_WORK_DIR = """
refuse() { echo "$1" >&2; exit 76; }
case "$1" in "~/"*) dir="$HOME/${1#??}" ;; *) dir=$1 ;; esac
case "$dir" in *%u*) dir="${dir%%\\%u*}$(id -u)${dir#*%u}" ;; esac
if [ ! -e "$dir" ] && [ ! -L "$dir" ]; then
  mkdir -p -- "$(dirname -- "$dir")" || exit 74
  mkdir -m 700 -- "$dir" || [ -d "$dir" ] || exit 74
fi
cd -- "$dir" || exit 74
[ ! -L "$dir" ] || refuse "it is a symbolic link"
set -- $(stat -c '%u %a' .)
[ "$1" = "$(id -u)" ] || refuse "it belongs to another user (number $1)"
case "$2" in *[2367][0-7] | *[2367]) refuse "others may write to it (mode $2); chmod go-w it" ;; esac
mkdir -p -- ledger artifacts && pwd -P && [ -w . ]
"""

# --- processes --------------------------------------------------------------------------------------------------
# A started process is three processes' work. START (ends at once) takes the lock and waits for the ledger entry.
# KEEPER leads a session of its own, waits and records the exit status; it gives up the lock before it writes it, so
# a status beside a held lock means that orphans hold the lock. PROGRAM notes its own identity, then becomes the
# command: its pid is its process group. The lock's descriptor 9 is inherited by all that the command starts.
PROGRAM = """
base=$1 entry=$2; shift 2
start_time=$(cut -d' ' -f22 /proc/$$/stat) && read -r boot_id </proc/sys/kernel/random/boot_id || exit 74
printf '%s, "pid": %s, "start_time": %s, "boot_id": "%s"}\\n' "$entry" "$$" "$start_time" "$boot_id" \\
  >"$base.json.tmp" && mv -f -- "$base.json.tmp" "$base.json" || exit 74
exec "$@"
"""

KEEPER = """
program=$1 base=$2 log=$3; shift 3
setsid sh -c "$program" sh "$base" "$@" 2>>"$log"
status=$?
exec 9>&-
echo "$status" >"$base.status.tmp" && mv -f -- "$base.status.tmp" "$base.status"
"""

START = """
keeper=$1 program=$2 base=$3 out=$4 err=$5; shift 5
mkdir -p -- "$(dirname -- "$base")" "$(dirname -- "$out")" "$(dirname -- "$err")" || exit 74
exec 9>>"$base.lock" || exit 74
flock -n 9 && [ "$base.lock" -ef /proc/self/fd/9 ] || { cat -- "$base.json" 2>/dev/null; exit 75; }
rm -f -- "$base.json" "$base.status" || exit 74
( : >>"$out" && : >>"$err" ) || exit 73
setsid -f sh -c "$keeper" sh "$program" "$base" "$err" "$@" >>"$out" 2>/dev/null </dev/null || exit 70
tries=0
until [ -e "$base.json" ]; do
  tries=$((tries + 1))
  [ $tries -le 1000 ] || exit 70
  [ ! -e "$base.status" ] || { tail -c 2000 -- "$err" >&2; exit 70; }
  sleep 0.01
done
cat -- "$base.json"
"""

# alive: the leader itself lives (same start time, same boot, no zombie). grouped: something of its group lives.
# holders: the processes, of whatever group or session, that still have the lock's descriptor.
# ours: the group may be signalled: its leader is ours and holds our lock, or the leader is gone and a holder of it is a
# member. A ledger entry alone, whoever wrote it, ends nothing.
_IDENTITY = """
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
holds() { [ -n "$(find "/proc/$1/fd" -lname "$base.lock" 2>/dev/null)" ]; }
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
"""

POLL = (
    _IDENTITY
    + """
if [ ! -e "$base.status" ] && alive; then echo running; else status; fi
"""
)

# $5 seconds. The lock is free when the process and all that it started have ended: nothing polls meanwhile.
WAIT = (
    _IDENTITY
    + """
[ ! -e "$base.lock" ] || flock -w "$1" "$base.lock" true
if [ ! -e "$base.status" ] && alive; then echo running; else status; fi
"""
)

# $5 signal number
SIGNAL = (
    _IDENTITY
    + """
ours || exit 1
kill "-$1" "-$pid"
"""
)

# $5 grace in hundredths of a second. Prints: status, killed, orphans.
STOP = (
    _IDENTITY
    + """
clock() { read -r up _ </proc/uptime; echo "${up%.*}${up#*.}"; }
gone_within() {
  limit=$(($(clock) + $1))
  while grouped; do [ "$(clock)" -lt $limit ] || return 1; sleep 0.02; done
}
killed=0
if ours; then
  kill -TERM "-$pid"
  if ! gone_within "$1"; then
    killed=1
    kill -KILL "-$pid"
    gone_within 500
  fi
fi
status
echo "$killed"
if locked; then
  holders | tr '\\n' ' '
elif [ -e "$base.lock" ]; then
  flock -n "$base.lock" rm -f -- "$base.json" "$base.status" "$base.lock"
else
  rm -f -- "$base.json" "$base.status"
fi
echo
"""
)

# $1 ledger directory. Prints the entries, one a line; removes locks that nobody holds and nothing belongs to.
LIST_LEDGER = """
cd -- "$1" 2>/dev/null || exit 0
for lock in *.lock; do
  [ -e "$lock" ] && [ ! -e "${lock%.lock}.json" ] && flock -n "$lock" rm -f -- "$lock"
done
for entry in *.json; do [ ! -e "$entry" ] || cat -- "$entry"; done
"""

# $1 lock file, $2 who holds it, $3 what stands for the whole machine (empty: not locked). Ends with standard input.
HOLD_LOCK = """
[ ! -L "$1" ] || { echo "$1 is a symbolic link" >&2; exit 76; }
if [ -n "$3" ]; then
  exec 8<"$3" || exit 74
  if ! flock -n 8; then
    pid=$(grep -m 1 "FLOCK .*:$(stat -c %i -- "$3") " /proc/locks | tr -s ' ' | cut -d' ' -f5)
    echo "another run on this machine${pid:+ (pid $pid)}"
    exit 75
  fi
fi
flock -n -E 75 "$1" sh -c 'printf "%s\\n" "$2" >"$1" && echo held && exec cat >/dev/null' sh "$1" "$2"
status=$?
[ $status -ne 75 ] || cat -- "$1"
exit $status
"""
