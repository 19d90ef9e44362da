# shellcheck shell=sh
# $1 process registry directory. Prints the entries, one a line; removes locks that nobody holds and nothing belongs to.
cd -- "$1" 2>/dev/null || exit 0
for lock in *.lock; do
  [ -e "$lock" ] && [ ! -e "${lock%.lock}.json" ] && flock -n "$lock" rm -f -- "$lock"
done
for entry in *.json; do [ ! -e "$entry" ] || cat -- "$entry"; done
