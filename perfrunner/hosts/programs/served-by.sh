# shellcheck shell=sh
# Prints the program of process $1, its sha256 and the words of its command, a line each.
cd "/proc/$1" && readlink exe && sha256sum <exe && tr '\0' '\n' <cmdline
