# shellcheck shell=sh
# after: identity.sh
# $5 grace in hundredths of a second. Prints: status, killed, orphans.
clock() { read -r up _ </proc/uptime; echo "${up%.*}${up#*.}"; }
gone_within() {
  limit=$(($(clock) + $1))
  while grouped; do [ "$(clock)" -lt $limit ] || return 1; sleep 0.02; done
}
killed=0
if ours; then
  kill -TERM "-$pid"
  if ! gone_within "$1"; then
    killed=1
    kill -KILL "-$pid"
    gone_within 500
  fi
fi
status
echo "$killed"
if locked; then
  holders | tr '\n' ' '
elif [ -e "$base.lock" ]; then
  flock -n "$base.lock" rm -f -- "$base.json" "$base.status" "$base.status.tmp" "$base.lock"
else
  rm -f -- "$base.json" "$base.status" "$base.status.tmp"
fi
echo
