# shellcheck shell=sh
# $1 directory of artifacts: for each its last use (seconds since 1970), its size in KiB and its name.
cd -- "$1" 2>/dev/null || exit 0
for dir in */; do
  [ -d "$dir" ] || continue
  echo "$(stat -c %Y -- "$dir") $(du -sk -- "$dir" | cut -f1) ${dir%/}"
done
