# shellcheck shell=sh
# $1 directory: a tar archive of it on standard output, each file whole.
exec tar -cf - --hard-dereference -C "$1" .
