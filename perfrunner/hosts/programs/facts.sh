# shellcheck shell=sh disable=SC2016
# $1 work directory. Records `RS name US content`; what the host does not show is empty. Inner shells expand their own.
show() { printf '\036%s\037' "$1"; shift; "$@" 2>/dev/null; }
first() { head -n 1 -- "$1"; }
show host uname -n
show container sh -c 'for mark in /.dockerenv /run/.containerenv; do [ ! -e "$mark" ] || echo "$mark"; done'
show kernel uname -r
show machine uname -m
show os grep -E '^PRETTY_NAME=' /etc/os-release
show model grep -m 1 -E '^(model name|Model|cpu model)' /proc/cpuinfo
show microcode grep -m 1 '^microcode' /proc/cpuinfo
show online cat /sys/devices/system/cpu/online
show memory grep -E '^(MemTotal|MemAvailable|SwapTotal):' /proc/meminfo
show thp first /sys/kernel/mm/transparent_hugepage/enabled
show thp_defrag first /sys/kernel/mm/transparent_hugepage/defrag
show governor sh -c 'sort -u /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor'
show turbo_off first /sys/devices/system/cpu/intel_pstate/no_turbo
show boost first /sys/devices/system/cpu/cpufreq/boost
show smt first /sys/devices/system/cpu/smt/active
show clock first /sys/devices/system/clocksource/clocksource0/current_clocksource
show boot_id first /proc/sys/kernel/random/boot_id
show aslr first /proc/sys/kernel/randomize_va_space
show overcommit first /proc/sys/vm/overcommit_memory
show swappiness first /proc/sys/vm/swappiness
show load first /proc/loadavg
show cgroup cat /proc/self/cgroup
# A limit of a cgroup holds for all groups below it: the directories from the process's own group to the top.
# In a container the path may not exist below the mount; then the mount itself is the container's group.
groups() {
  group=$(sed -n "s|^[0-9]*:$1:/|/|p" /proc/self/cgroup)
  while [ -n "$group" ]; do
    echo "$2${group%/}"
    if [ -z "${group#/}" ]; then break; fi
    group=${group%/*}
    group=${group:-/}
  done
}
# `limit used reclaimable` of each group that has a limit of memory, in bytes; v2 first, then v1.
memory_limits() {
  { groups '' /sys/fs/cgroup; groups '\([^:]*,\)*memory\(,[^:]*\)*' /sys/fs/cgroup/memory; } | while read -r group; do
    for name in max high limit_in_bytes; do
      [ -r "$group/memory.$name" ] || continue
      used=$(cat "$group/memory.current" "$group/memory.usage_in_bytes")
      cached=$(sed -n 's/^\(total_\)*inactive_file //p' "$group/memory.stat" | tail -n 1)
      echo "$(cat "$group/memory.$name") ${used:-0} ${cached:-0}"
    done
  done
}
# `quota period` of each group, in microseconds.
cpu_limits() {
  groups '' /sys/fs/cgroup | while read -r group; do cat "$group/cpu.max"; done
  groups '\([^:]*,\)*cpu\(,[^:]*\)*' /sys/fs/cgroup/cpu | while read -r group; do
    quota=$(cat "$group/cpu.cfs_quota_us")
    [ "${quota:--1}" = -1 ] || echo "$quota $(cat "$group/cpu.cfs_period_us")"
  done
}
show cpu_max cpu_limits
show memory_limits memory_limits
show nice sh -c 'cut -d" " -f19 </proc/self/stat'
show affinity grep Cpus_allowed_list /proc/self/status
show nodes cat /sys/devices/system/node/online
show glibc getconf GNU_LIBC_VERSION
show bits getconf LONG_BIT
show page getconf PAGESIZE
show ipv6 sh -c 'if [ -s /proc/net/if_inet6 ]; then echo yes; else echo no; fi'
show open_files sh -c 'ulimit -n'
show limits cat /proc/self/limits
show disk df -Pk -- "$1"
show inodes df -Pi -- "$1"
show mount findmnt -n -r -f -o FSTYPE,OPTIONS,SOURCE -T "$1"
show virt first /sys/class/dmi/id/product_name
show l3 sh -c '
  for cache in /sys/devices/system/cpu/cpu*/cache/index*; do
    read -r level <"$cache/level" && [ "$level" = 3 ] && paste -d" " "$cache/shared_cpu_list" "$cache/size"
  done | sort -u'
show time date +%s.%N
