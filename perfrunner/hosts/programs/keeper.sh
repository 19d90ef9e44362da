# shellcheck shell=sh
# $1 program.sh, $2 process registry entry without suffix, $3 log; then the entry's text and the command. See program.sh.
# The standard error is START's, which must end; this shell would print only how the command was killed.
exec 2>/dev/null
program=$1 base=$2 log=$3; shift 3
setsid sh -c "$program" sh "$base" "$@" 2>>"$log"
status=$?
exec 9>&-
printf '%04d\n' "$status" 1<>"$base.status.tmp" && mv -f -- "$base.status.tmp" "$base.status"
