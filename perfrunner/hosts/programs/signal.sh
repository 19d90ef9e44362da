# shellcheck shell=sh
# after: identity.sh
# $5 signal number
ours || exit 1
kill "-$1" "-$pid"
