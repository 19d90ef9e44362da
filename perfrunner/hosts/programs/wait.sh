# shellcheck shell=sh
# after: identity.sh
# $5 seconds. The lock is free when the process and all that it started have ended: nothing polls.
[ ! -e "$base.lock" ] || flock -w "$1" "$base.lock" true
if [ ! -e "$base.status" ] && alive; then echo running; else status; fi
