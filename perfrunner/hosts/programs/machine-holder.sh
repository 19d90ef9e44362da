# shellcheck shell=sh
# machine_holder DIRECTORY: who has the machine's lock. The text is an argument of hold-lock.sh's processes, which
# every user may read; a run that is on this machine itself has its lock file open, which only its own user may see.
machine_holder() {
  holder=$(grep -m 1 "^[0-9]*: FLOCK .*:$(stat -c %i -- "$1") " /proc/locks | tr -s ' ' | cut -d' ' -f5)
  [ -n "$holder" ] || { echo "another run on this machine"; return; }
  text=$(tr '\0' '\n' 2>/dev/null <"/proc/$holder/cmdline" | grep -m 1 '^run .* (pid [0-9]*, since ')
  if [ -z "$text" ]; then
    file=$(find "/proc/$holder/fd" -lname '*/host.lock' -printf '%l\n' 2>/dev/null | head -n 1)
    text=$(head -n 1 -- "$file" 2>/dev/null)
  fi
  echo "${text:-another run on this machine (pid $holder of $(stat -c %U "/proc/$holder" 2>/dev/null))}"
}
