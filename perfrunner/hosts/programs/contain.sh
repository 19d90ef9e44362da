# shellcheck shell=sh
# $@ is podman's command, in a session of its own: TERM reaches it once, from here. It has no descriptor 9: its monitor
# outlives it for a moment, and would still hold the registry's lock.
setsid "$@" 9>&- &
child=$!
trap 'kill -TERM "$child"' TERM
wait "$child"
status=$?
while kill -0 "$child" 2>/dev/null; do
  wait "$child"
  status=$?
done
exit "$status"
