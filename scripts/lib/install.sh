# shellcheck shell=bash
# Sourced by the other scripts: installs what a step needs and nothing else.
#
#     need_packages GROUP...   Debian packages, all at once, with root or sudo; without, prints their names and exits 3
#     need_python base|dev     the Python packages of requirements/, and this checkout, in .venv
#
# Works on Debian 12 and later and on Ubuntu 24.04 and later. No service is started or enabled (lib/no-services).
# Functions print to stderr; the scripts that source this use `set -euo pipefail`.

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
venv=$root_dir/.venv
install_log=$root_dir/build/packages.log
lists_are_new=no

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 3; }

# packages_of GROUP: prints the Debian packages of a group.
packages_of() {
    local version package
    case $1 in
    engine)
        echo g++ gcc lld make cmake ninja-build pkg-config git ca-certificates libevent-dev libssl-dev librocksdb-dev \
            libhwloc-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev zlib1g-dev libxxhash-dev \
            libbenchmark-dev libgtest-dev libgmock-dev
        ;;
    # cargo builds the pinned allocators. Debian 12 has a current version under another name, in addition to its old one.
    cargo)
        if ! cargo_is_recent; then
            if is_offered cargo-web; then echo cargo-web rustc-web; else echo cargo rustc; fi
        fi
        ;;
    python)
        if ! python3 -c 'import ensurepip' 2>/dev/null; then echo python3 python3-venv; fi
        ;;
    # The second compiler: of the fuzzers and of the ASan build, which it builds in half the time.
    clang)
        version=$(clang_version)
        echo "clang-$version"
        one_of "libclang-rt-$version-dev" "libclang-common-$version-dev"
        ;;
    tidy) version=$(clang_version); echo "clang-$version" "clang-tidy-$version" ;;
    lint) echo shellcheck ;;
    ssh) echo openssh-client ;;
    lab) echo iproute2 util-linux openssh-server openssh-client ;;
    memcached) echo memcached ;;
    # Servers that tests start for themselves.
    servers)
        packages_of lab
        echo memcached redis-server libjemalloc2
        one_of libmimalloc3 libmimalloc2.0
        one_of libtcmalloc-minimal4t64 libtcmalloc-minimal4
        # The programs of any version will do.
        [ -n "$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] || echo postgresql
        ;;
    tests)
        packages_of servers
        echo ccache curl valgrind strace
        # Without windows it needs a third of the CPU time. Ubuntu has it as a snap only, which is not installed by a
        # script: the tests of pages are skipped there.
        for package in chromium-headless-shell chromium; do
            if [ -n "$(installed $package)" ] || is_offered $package; then echo $package; break; fi
        done
        # Login shells, and a user database for an sshd of the tests.
        echo fish tcsh csh zsh libnss-wrapper
        one_of linux-perf linux-tools-generic
        ;;
    prometheus) echo prometheus ;;
    # Chroots of other systems.
    systems) echo mmdebstrap debian-archive-keyring curl util-linux git ;;
    # Libraries for another processor, and its emulator.
    aarch64) echo mmdebstrap debian-archive-keyring qemu-user ccache ;;
    containers) echo buildah podman runc mmdebstrap arch-test ;;
    *) die "no group of packages is called $1" ;;
    esac
}

# The oldest cargo that the crates of the pinned allocators accept.
cargo_is_recent() {
    local version
    version=$(cargo --version 2>/dev/null | awk '{print $2}')
    [ -n "$version" ] && [ "$(printf '%s\n1.71.0\n' "$version" | sort -V | head -n 1)" = 1.71.0 ]
}

# one_of PACKAGE...: the first that is installed, else the first that a package source offers, else the first.
one_of() {
    local package
    for package in "$@"; do if [ -n "$(installed "$package")" ]; then echo "$package"; return; fi; done
    for package in "$@"; do if is_offered "$package"; then echo "$package"; return; fi; done
    echo "$1"
}

# clang_version: 14, with which this is developed, or a newer one where there is no 14.
clang_version() {
    local clang
    clang=$(one_of clang-{14,21,20,19,18,17,16,15})
    echo "${clang#clang-}"
}

# apt also knows names of packages that it cannot install, because others replace or provide them.
# The whole of the output is read: under pipefail, `grep -q` would end the pipe early, and fail now and then.
is_offered() { [[ $(LC_ALL=C apt-cache policy "$1" 2>/dev/null) == *$'\n  Candidate: '[^\(]* ]]; }

# installed PACKAGE...: prints those that are.
installed() { dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' || true; }

# missing_packages GROUP...: prints the packages of these groups that are not installed, a line each.
missing_packages() {
    local group wanted
    wanted=$(for group in "$@"; do packages_of "$group"; done | tr ' ' '\n' | sed '/^$/d' | sort -u)
    [ -n "$wanted" ] || return 0
    # shellcheck disable=SC2086 # a word each
    comm -23 <(echo "$wanted") <(installed $wanted | sort -u)
}

# need_packages GROUP...: installs what is missing of these groups.
need_packages() {
    local missing path
    command -v apt-get >/dev/null || die "this script installs Debian packages; elsewhere, see docs/how-to/install.md"
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    may_install || ask_for "$missing"
    mkdir -p "$(dirname "$install_log")"
    if [ $lists_are_new = no ]; then
        logged as_root apt-get update -qq
        lists_are_new=yes
        missing=$(missing_packages "$@") # with the names that the package sources have now
    fi
    say "Debian packages: installing $(wc -l <<<"$missing"): $(paste -sd' ' <<<"$missing")"
    path=$root_dir/scripts/lib/no-services:/usr/sbin:/usr/bin:/sbin:/bin
    as_root env PATH="$path" invoke-rc.d >/dev/null 2>&1 || die "root cannot run programs of $root_dir/scripts/lib/no-services"
    # shellcheck disable=SC2086 # a word each
    logged as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get install -y -q \
        --no-install-recommends -o "DPkg::Path=$path" $missing
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# may_install: whether this user is root, or may become root by sudo. Asks for the password where somebody can type it.
may_install() {
    [ "$(id -u)" = 0 ] && return
    command -v sudo >/dev/null || return
    sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }
}

# ask_for PACKAGES: what an administrator has to install for this user.
ask_for() {
    printf '%s\n' "error: some packages are missing, and installing them needs root or sudo" \
        "Ask an administrator for: apt-get install --no-install-recommends $(paste -sd' ' <<<"$1")" >&2
    exit 3
}

# logged COMMAND...: writes what it prints to the log. Where it fails, prints the end of that and exits 3.
logged() {
    printf '\n$ %s\n' "$*" >>"$install_log"
    "$@" >>"$install_log" 2>&1 </dev/null && return
    tail -n 20 "$install_log" >&2
    die "failed: ${*: -1}; log: ${install_log#"$root_dir"/}"
}

# python_is_ready base|dev: whether .venv has what the lock and the checkout say now.
python_is_ready() {
    local file
    for file in "requirements/$1.txt" setup.py pyproject.toml; do
        [ "$root_dir/$file" -ot "$venv/.installed-$1" ] || return
    done
}

# need_python base|dev: a virtual environment in .venv with the locked packages and this checkout.
need_python() {
    local lock=$root_dir/requirements/$1.txt
    if python_is_ready "$1"; then return; fi
    need_packages python
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "Python 3.10 or later is needed, found $(python3 --version)"
    local install_log=$root_dir/build/python.log
    mkdir -p "$(dirname "$install_log")"
    say "Python packages: installing $(grep -c '^[a-z]' "$lock") into .venv"
    [ -x "$venv/bin/python" ] || logged python3 -m venv "$venv"
    # The lock names every package, so there is nothing to resolve; modules are compiled when they are imported.
    logged pip install --no-deps --no-compile --require-hashes --requirement "$lock"
    logged pip install --no-deps --no-build-isolation --editable "$root_dir"
    touch "$venv/.installed-$1"
}

pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
