# shellcheck shell=sh
# after: identity.sh
# Prints running, lost or the exit status.
if [ ! -e "$base.status" ] && alive; then echo running; else status; fi
