# shellcheck shell=sh
# $1 root, then patterns: the files that match, each with its first line. A file of /proc/sys gives what one read takes
# and nothing after it, which the shell's own `read`, byte by byte, does not get along with.
root=$1; shift
for pattern do
  for file in "$root"$pattern; do
    if [ -r "$file" ] && line=$(head -n 1 -- "$file"); then printf '%s\t%s\n' "${file#"$root"}" "$line"; fi
  done
done
