# shellcheck shell=sh
# after: machine-holder.sh
# $1 lock file, $2 who holds it, $3 what stands for the whole machine (empty: not locked), $4 a holder that may be
# ended (empty: none). Ends with standard input. Says `held`, or who holds it, with status 75 (the lock file) or
# 77 (the machine alone). The lock file's lines are the holder's text and its process, here.
file=$1 holder=$2 machine=$3 past=$4 mode=-n
[ ! -L "$file" ] || { echo "$file is a symbolic link" >&2; exit 76; }
# shellcheck disable=SC2016,SC2086
# The inner shell expands its own parameters; `mode` may be two words.
hold() {
  set -- flock $mode -E 75 "$file" \
    sh -c 'printf "%s\n" "$2" "$$" | cat >"$1" && echo held && exec cat >/dev/null' sh "$file" "$holder"
  [ -z "$machine" ] || set -- flock $mode -E 77 "$machine" "$@"
  "$@"
}
is_held() { [ -e "$file" ] && ! flock -n "$file" true; }
# shellcheck disable=SC2086
# Split into words on purpose.
stat_of() { { read -r line </proc/"$1"/stat; } 2>/dev/null || return 1; set -f; set -- ${line##*) }; parent=$2 group=$3; }
# What kept the lock when its connection was cut: with its sshd session, which ends all else that it ran. A process is
# only ended when it has the lock file open.
end_past() {
  pid=$(sed -n 2p -- "$file")
  case $pid in '' | *[!0-9]*) return 1 ;; esac
  [ -n "$(find -L "/proc/$pid/fd" -samefile "$file" 2>/dev/null)" ] || return 1
  stat_of "$pid" && [ "$group" -gt 1 ] && pid=$group && stat_of "$pid" || return 1
  case $parent:$(cat "/proc/$parent/comm" 2>/dev/null) in 1:*) ;; *:sshd*) kill -TERM "$parent" ;; esac
  kill -TERM "-$pid"
}
hold
status=$?
[ $status -ne 77 ] || ! is_held || status=75
if [ $status -eq 75 ] && [ -n "$past" ] && [ "$(head -n 1 -- "$file")" = "$past" ] && end_past; then
  mode='-w 5'
  hold
  status=$?
fi
case $status in
75) head -n 1 -- "$file" ;;
77) machine_holder "$machine" ;;
esac
exit $status
