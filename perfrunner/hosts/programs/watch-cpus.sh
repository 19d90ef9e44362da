# shellcheck shell=sh
# $1 seconds. The CPU time of all CPUs before and after them, and what time it is.
grep "^cpu " /proc/stat
sleep "$1"
grep "^cpu " /proc/stat
date +%s.%N
