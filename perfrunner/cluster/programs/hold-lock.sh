# shellcheck shell=sh disable=SC2016
# The inner shell expands its own parameters.
# $1 lock file, $2 who holds it, $3 what stands for the whole machine (empty: not locked). Ends with standard input.
[ ! -L "$1" ] || { echo "$1 is a symbolic link" >&2; exit 76; }
if [ -n "$3" ]; then
  exec 8<"$3" || exit 74
  if ! flock -n 8; then
    pid=$(grep -m 1 "FLOCK .*:$(stat -c %i -- "$3") " /proc/locks | tr -s ' ' | cut -d' ' -f5)
    echo "another run on this machine${pid:+ (pid $pid)}"
    exit 75
  fi
fi
flock -n -E 75 "$1" sh -c 'printf "%s\n" "$2" >"$1" && echo held && exec cat >/dev/null' sh "$1" "$2"
status=$?
[ $status -ne 75 ] || cat -- "$1"
exit $status
