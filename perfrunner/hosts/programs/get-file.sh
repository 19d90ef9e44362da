# shellcheck shell=sh
# $1 path.
# The first $size bytes, as they were when asked for; their sha256 and size go before them, on one line of 80 bytes.
size=$(stat -L -c %s -- "$1") || exit 74
sum=$(head -c "$size" -- "$1" | sha256sum) || exit 74
printf '%s %14d\n' "${sum%% *}" "$size"
exec head -c "$size" -- "$1"
