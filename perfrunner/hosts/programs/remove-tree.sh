# shellcheck shell=sh
# $1 work directory, $2 what goes. Links are resolved first, so none leads out.
inside=$(realpath -m -- "$1") && path=$(realpath -m -- "$2") || exit 74
case "$path" in
  "$inside"/?*) rm -rf -- "$path" ;;
  *) echo "$path is not inside the work directory $inside" >&2; exit 76 ;;
esac
