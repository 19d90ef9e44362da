# shellcheck shell=sh
# $1 root, then patterns: the files that match, each with its first line.
root=$1; shift
for pattern do
  for file in "$root"$pattern; do
    if [ -r "$file" ] && read -r line <"$file"; then printf '%s\t%s\n' "${file#"$root"}" "$line"; fi
  done
done
