# shellcheck shell=bash disable=SC2016
# $1 address, $2 port, $3 seconds at most. Takes what comes until the other end closes; prints how many bytes came and in
# how many µs, both without the first byte, at which the clock begins.
exec 3<>"/dev/tcp/$1/$2"
timeout "$3" head -c 1 <&3 >/dev/null || exit
begun=${EPOCHREALTIME/[.,]/}
came=$(timeout "$3" cat <&3 | wc -c)
echo "$came $((${EPOCHREALTIME/[.,]/} - begun))"
