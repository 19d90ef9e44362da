# shellcheck shell=sh
# $1 directory, $2 sha256 of its list of sums; a tar archive on standard input. Clears its own rests, as put-file does.
trap '' PIPE
rm -rf -- "$1".part.* "$1".old.*
part="$1.part.$$" old="$1.old.$$"
mkdir -p -- "$part" || exit 74
trap 'rm -rf -- "$part" "$old"' EXIT
tar -xf - -C "$part" || exit 74
( cd -- "$part" && [ "$(sha256sum <.sha256sums)" = "$2  -" ] && sha256sum -c --quiet --strict .sha256sums ) >&2 ||
  { echo "$1 arrived incomplete" >&2; exit 74; }
if [ -e "$1" ]; then mv -T -- "$1" "$old" || exit 74; fi
mv -T -- "$part" "$1" || exit 74
