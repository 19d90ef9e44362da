# shellcheck shell=sh
# Prints the files that $1 names, which may be a pattern, with an empty line behind each.
IFS=
# shellcheck disable=SC2086 # it is expanded
for file in $1; do
    cat -- "$file"
    echo
done
