# shellcheck shell=bash
# As connect.sh, without a connection: what starting bash costs.
for ((n = 0; n < $3; n++)); do
  begun=${EPOCHREALTIME/[.,]/}
  _=$(timeout "$4" bash -c : bash "$1" "$2" 2>&1)
  echo $((${EPOCHREALTIME/[.,]/} - begun))
done
