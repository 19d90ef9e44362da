# shellcheck shell=sh
# $@ are names. Prints NAME=VALUE and a NUL for each of them that is set.
for name do
  value=$(printenv "$name") && printf '%s=%s\0' "$name" "$value"
done
:
