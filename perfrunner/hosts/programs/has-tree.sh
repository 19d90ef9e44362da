# shellcheck shell=sh
# $1 directory. When each file is as its list of sums says (files that are not listed do not matter): marks it used now
# and prints the list's own sha256. Every CPU reads some of the files; SHELL is who runs split's filters.
cd -- "$1" 2>/dev/null && [ -f .sha256sums ] || exit 1
SHELL=/bin/sh split -e -n "r/$(nproc)" --filter='exec sha256sum -c --status --strict' .sha256sums 2>/dev/null || exit 1
touch -- . && sum=$(sha256sum <.sha256sums) && echo "${sum%% *}"
