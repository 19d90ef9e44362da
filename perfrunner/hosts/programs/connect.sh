# shellcheck shell=bash disable=SC2016
# $1 address, $2 port, $3 tries, $4 seconds. A refusal is an answer: the host was reached. Prints µs, a line each.
for ((n = 0; n < $3; n++)); do
  begun=${EPOCHREALTIME/[.,]/}
  answer=$(timeout "$4" bash -c 'exec 3<>"/dev/tcp/$1/$2"' bash "$1" "$2" 2>&1) ||
    case $answer in *refused*) ;; *) echo "${answer##*: }" >&2; exit 1 ;; esac
  echo $((${EPOCHREALTIME/[.,]/} - begun))
done
