# shellcheck shell=sh
# $1 root, then a file and its value, and so on. Prints the files that did not take it.
root=$1; shift
while [ $# -gt 1 ]; do
  { printf '%s\n' "$2" >"$root$1"; } 2>/dev/null || printf '%s\n' "$1"
  shift 2
done
