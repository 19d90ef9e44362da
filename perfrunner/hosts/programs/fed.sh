# shellcheck shell=sh
# As TIED, for a command that reads standard input: its end is the command's own business.
umask 022
"$@"; exit $?
