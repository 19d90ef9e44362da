# shellcheck shell=bash
# Sourced by the other scripts: installs what a step needs and nothing else. Debian 12, root or sudo.
# Functions print to stderr; the scripts that source this use `set -euo pipefail`.

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
venv=$root_dir/.venv

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 3; }

# as_root CMD...: runs a command with the rights to install packages.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else die "installing packages needs root or sudo: $*"; fi
}

# apt_need PACKAGE...: installs those that are missing.
apt_need() {
    local missing=() package
    command -v apt-get >/dev/null || die "this script installs Debian packages; on another system install by hand: $*"
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return
    say "installing ${missing[*]}"
    as_root apt-get update -qq >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# What the engine is built with.
need_engine_packages() {
    apt_need g++ gcc lld make cmake ninja-build pkg-config git ca-certificates libevent-dev libssl-dev librocksdb-dev \
        libhwloc-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev zlib1g-dev libxxhash-dev libbenchmark-dev libgtest-dev libgmock-dev
}

# The second compiler: of the fuzzers and of the ASan lane, which it builds in half the time.
need_clang() {
    apt_need clang-14 libclang-rt-14-dev
}

# The server's programs for tests that raise one of their own; Debian's package would start another at once.
need_postgresql() {
    [ -n "$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] && return
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        as_root mkdir -p /etc/postgresql-common
        echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
    fi
    apt_need postgresql
}

# cargo builds the pinned jemalloc versions; 1.71 is the oldest that their crates accept.
need_cargo() {
    local version
    version=$(cargo --version 2>/dev/null | awk '{print $2}') || version=""
    if [ -z "$version" ] || [ "$(printf '%s\n1.71.0\n' "$version" | sort -V | head -n 1)" != 1.71.0 ]; then
        # Debian 12 keeps a current toolchain under this name, beside its own old one.
        apt_need cargo-web rustc-web
    fi
}

# need_python EXTRA: a virtual environment in .venv with this checkout installed (EXTRA: empty or dev), SSH and SDK with it.
need_python() {
    local extra=$1 python stamp
    python=$(command -v python3) || { apt_need python3 python3-venv; python=$(command -v python3); }
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "Python 3.10 or later is needed, found $("$python" --version)"
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then apt_need python3-venv; fi
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    stamp=$venv/.installed-${extra:-base}
    if [ ! -f "$stamp" ] || [ "$root_dir/setup.py" -nt "$stamp" ] || [ "$root_dir/pyproject.toml" -nt "$stamp" ]; then
        say "installing the Python packages into .venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e "${root_dir}[ssh,sdk${extra:+,$extra}]" >&2
        touch "$stamp"
    fi
}
