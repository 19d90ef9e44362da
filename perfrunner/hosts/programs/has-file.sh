# shellcheck shell=sh
# $1 path, $2 sha256, $3 mode: ends with 0 when the file is there so.
[ "$(sha256sum <"$1")" = "$2  -" ] 2>/dev/null && [ "$(stat -c %a -- "$1")" = "$3" ]
