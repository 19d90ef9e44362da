# shellcheck shell=sh disable=SC2088,SC2046
# A tilde is compared, not expanded; two words are wanted of stat.
# $1 work directory; `~` is the user's home, `%u` the number of the user. Prints the real path. It must be the user's
# own: what another may write to, or put a link in the place of, could make us end or remove what is not ours.
missing=
for program in bash find findmnt flock grep sed setsid sha256sum split stat tar timeout; do
  command -v "$program" >/dev/null || missing="$missing $program"
done
[ -z "$missing" ] || { echo "$missing"; exit 78; }
refuse() { echo "$1" >&2; exit 76; }
case "$1" in "~/"*) dir="$HOME/${1#??}" ;; *) dir=$1 ;; esac
case "$dir" in *%u*) dir="${dir%%\%u*}$(id -u)${dir#*%u}" ;; esac
if [ ! -e "$dir" ] && [ ! -L "$dir" ]; then
  mkdir -p -- "$(dirname -- "$dir")" || exit 74
  mkdir -m 700 -- "$dir" || [ -d "$dir" ] || exit 74
fi
cd -- "$dir" || exit 74
# Check where we are, not what the name refers to: a link in its place could be removed again before the check.
parent=$(cd -- "$(dirname -- "$dir")" && pwd -P) || exit 74
[ "$(pwd -P)" = "${parent%/}/$(basename -- "$dir")" ] || refuse "it is a symbolic link"
set -- $(stat -c '%u %a' .)
[ "$1" = "$(id -u)" ] || refuse "it belongs to another user (number $1)"
case "$2" in *[2367][0-7] | *[2367]) refuse "others may write to it (mode $2); chmod go-w it" ;; esac
mkdir -p -- registry artifacts && pwd -P && [ -w . ]
