# shellcheck shell=sh disable=SC2015,SC3013
# What follows || is for the failure of either; dash and bash know -ef.
# $1 keeper.sh, $2 program.sh, $3 process registry entry without suffix, $4 and $5 logs; then the entry's text and the command.
# See program.sh.
keeper=$1 program=$2 base=$3 out=$4 err=$5; shift 5
mkdir -p -- "$(dirname -- "$base")" "$(dirname -- "$out")" "$(dirname -- "$err")" || exit 74
exec 9>>"$base.lock" || exit 74
flock -n 9 && [ "$base.lock" -ef /proc/self/fd/9 ] || { cat -- "$base.json" 2>/dev/null; exit 75; }
rm -f -- "$base.json" "$base.status" || exit 74
( : >>"$out" && : >>"$err" ) || exit 73
# On a full disk program.sh could say nothing, not even that; cat tells the cause, which dash's own printf does not.
cat >"$base.json.tmp" <<ENTRY || exit 74
$1
ENTRY
# The keeper overwrites it, which a full disk allows.
cat >"$base.status.tmp" <<STATUS || exit 74
0000
STATUS
setsid -f sh -c "$keeper" sh "$program" "$base" "$err" "$@" >>"$out" </dev/null || exit 70
tries=0
until [ -e "$base.json" ]; do
  tries=$((tries + 1))
  [ $tries -le 1000 ] && [ ! -e "$base.status" ] || {
    tail -c 2000 -- "$err" >&2
    [ -e "$base.status" ] || echo "it did not begin within 10 s: is a limit of processes or memory reached?" >&2
    exit 70
  }
  sleep 0.01
done
cat -- "$base.json"
