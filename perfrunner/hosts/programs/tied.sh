# shellcheck shell=sh
# Ends what follows on the command line when standard input ends: sshd closes it when the channel or the link goes.
# The shell is its session's and group's leader (sshd saw to that), so the group is $$. The command's own standard
# input is empty. `exit $?` turns a death by signal into 128 + n, which SSH libraries would lose.
umask 022
exec 3<&0
( trap '' TERM HUP; read -r _ <&3; kill -TERM -$$; sleep 2; kill -KILL -$$ ) >/dev/null 2>&1 </dev/null &
watchdog=$!
exec 3<&- </dev/null
"$@"
status=$?
kill -KILL $watchdog
exit $status
