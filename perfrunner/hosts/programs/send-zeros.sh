# shellcheck shell=bash
# $1 address, $2 port, $3 seconds of it.
timeout "$3" cat /dev/zero >"/dev/tcp/$1/$2"
status=$?
[ $status = 124 ] || exit $status
