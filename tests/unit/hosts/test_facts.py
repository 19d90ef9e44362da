"""The facts of hosts that we do not have here, from what they would print."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from perfrunner.domain import STABLE_FACTS
from perfrunner.hosts import scripts
from perfrunner.hosts.facts import (
    NO_LIMIT,
    compile_jobs,
    memory_available_here,
    parse_facts,
    usable_cpus,
    usable_memory,
    work_dir_problem,
)
from tests.support.waiting import PATIENCE_S


def printed(**records: str) -> str:
    return "".join(f"\036{name}\037{text}\n" for name, text in records.items())


def test_where_a_work_directory_is() -> None:
    header = "Filesystem Inodes IUsed IFree IUse% Mounted on"
    facts = parse_facts(
        printed(mount="nfs4 rw,vers=4.2", inodes=f"{header}\n/dev/a 100 40 60 40% /")
    )
    assert facts == {
        "work_dir_filesystem": "nfs4", "work_dir_options": "rw,vers=4.2", "inodes_free": 60,
    }  # fmt: skip
    assert (work_dir_problem(facts) or ("",))[0].startswith("the work directory is on nfs4")
    for kind, source in (("nfs4", "srv:/x"), ("fuse.new", "me@srv:"), ("new", "//srv/share")):
        known = parse_facts(printed(mount=f"{kind} rw {source}"))
        assert (work_dir_problem(known) or ("",))[0].startswith(
            f"the work directory is on {kind} of {source}: "
        )
    for source in ("/dev/mapper/a:b", "tank/data:x", "overlay", "/dev/sda1[/srv:x]"):
        assert work_dir_problem(parse_facts(printed(mount=f"zfs rw {source}"))) is None
    btrfs = parse_facts(printed(mount="btrfs rw,noexec", inodes=f"{header}\n/dev/a 0 0 0 - /"))
    assert "inodes_free" not in btrfs
    assert "noexec" in (work_dir_problem(btrfs) or ("",))[0]
    assert work_dir_problem({}) is None


def test_a_two_socket_server() -> None:
    facts = parse_facts(
        printed(
            host="node1",
            kernel="5.10.0",
            machine="x86_64",
            os='PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"',
            model="model name\t: Intel(R) Xeon(R) E5-2680 v3 @ 2.50GHz",
            microcode="microcode\t: 0x49",
            online="0-23",
            memory="MemTotal: 65536 kB\nMemAvailable: 1024 kB\nSwapTotal: 0 kB",
            thp="always [madvise] never",
            thp_defrag="always defer defer+madvise [madvise] never",
            governor="performance\npowersave",
            turbo_off="1",
            smt="0",
            clock="tsc",
            nodes="0-1",
            load="0.25 0.10 0.05 1/100 4242",
            l3="0,2,4 30720K\n1,3,5 30720K",
            disk="Filesystem 1024-blocks Used Available Capacity Mounted\n/dev/a 100 40 60 40% /",
            cgroup="12:cpu:/x\n0::/user.slice",
            affinity="Cpus_allowed_list:\t0-23",
        )
    )
    assert facts == {
        "hostname": "node1",
        "kernel": "5.10.0",
        "machine": "x86_64",
        "distribution": "Debian GNU/Linux 12 (bookworm)",
        "cpu_model": "Intel(R) Xeon(R) E5-2680 v3 @ 2.50GHz",
        "microcode": "0x49",
        "cpus": 24,
        "cpus_allowed": "0-23",
        "memory_bytes": 65536 * 1024,
        "memory_available_bytes": 1024 * 1024,
        "swap_bytes": 0,
        "thp_enabled": "madvise",
        "thp_defrag": "madvise",
        "governor": "performance powersave",
        "turbo": False,
        "smt": False,
        "clock_source": "tsc",
        "numa_nodes": "0-1",
        "load_average": 0.25,
        "l3_domains": [{"cpus": "0,2,4", "size": "30720K"}, {"cpus": "1,3,5", "size": "30720K"}],
        "disk_free_bytes": 60 * 1024,
        "cgroup": "0::/user.slice",
    }


def test_what_a_host_does_not_show_is_absent() -> None:
    assert parse_facts(printed(kernel="6.1", governor="", thp="", l3="", boost="1")) == {
        "kernel": "6.1",
        "turbo": True,
    }
    assert parse_facts("") == {}


def test_of_a_group_and_those_above_it_the_tightest_limit_holds() -> None:
    facts = parse_facts(
        printed(
            cpu_max="max 100000\n150000 100000\n20000 10000",
            memory_limits="max 9 9\n4096 1000 200\n8192 8000 0\n9223372036854771712 1 1",
            memory="MemTotal: 65536 kB\nMemAvailable: 1024 kB\nSwapTotal: 0 kB",
            nice="5",
        )
    )
    assert facts == {
        "cgroup_cpu_max": "150000 100000",
        "cgroup_memory_max_bytes": 4096,
        "memory_available_bytes": 192,
        "memory_bytes": 65536 * 1024,
        "swap_bytes": 0,
        "niceness": 5,
    }


@pytest.mark.parametrize("quota", ["max", "100 0", "-1 100000", "", "50000"])
def test_a_quota_that_no_kernel_writes_is_no_limit(quota: str) -> None:
    assert usable_cpus(parse_facts(printed(cpu_max=quota)) | {"cpus": 8}) == 8


def test_names_of_file_systems_contain_blanks_and_line_breaks() -> None:
    header = "Filesystem 1024-blocks Used Available Capacity Mounted on"
    for row in (
        "//nas/my share 1000 10 990 1% /mnt/a b",
        "/dev/sda1 1000 10 990 1% /a\nb 7",
        "x 1000 10 990 - /",
    ):
        facts = parse_facts(printed(disk=f"{header}\n{row}", inodes=f"{header}\n{row}"))
        assert facts == {"disk_free_bytes": 990 * 1024, "inodes_free": 990}


def test_no_limit_is_no_fact() -> None:
    """A history that was begun before these were read goes on where there is none."""
    facts = parse_facts(
        printed(cpu_max="max 100000\nmax 100000", memory_limits="max 1 1", nice="0")
    )
    assert facts == {"cgroup_cpu_max": "max 100000"}


def test_a_container_says_so() -> None:
    facts = parse_facts(printed(host="3f2a", container="/.dockerenv"))
    assert facts == {"hostname": "3f2a", "container": True}


def test_what_varies_by_nature_is_not_stable() -> None:
    assert not {"load_average", "memory_available_bytes", "disk_free_bytes"} & set(STABLE_FACTS)


V2 = {
    "proc": "0::/kubepods/pod1/app\n",
    "kubepods/pod1/app/memory.max": "max\n",
    "kubepods/pod1/app/memory.current": "900\n",
    "kubepods/pod1/memory.max": "536870912\n",
    "kubepods/pod1/memory.high": "max\n",
    "kubepods/pod1/memory.current": "136870912\n",
    "kubepods/pod1/memory.stat": "anon 5\ninactive_file 100000000\nactive_file 7\n",
    "kubepods/pod1/app/cpu.max": "max 100000\n",
    "kubepods/cpu.max": "150000 100000\n",
}
V1 = {
    "proc": "9:name=systemd:/\n4:memory:/docker/3f2a\n3:cpuset:/docker/3f2a\n1:cpu,cpuacct:/docker/3f2a\n0::/\n",
    # The container's own group is mounted at the top, as Docker does it.
    "memory/memory.limit_in_bytes": "536870912\n",
    "memory/memory.usage_in_bytes": "136870912\n",
    "memory/memory.stat": "inactive_file 3\ntotal_cache 8\ntotal_inactive_file 100000000\n",
    "cpu/cpu.cfs_quota_us": "150000\n",
    "cpu/cpu.cfs_period_us": "100000\n",
}
V1_SYSTEMD = {
    "proc": "4:hugetlb,memory:/system.slice/ci runner.service\n1:cpuacct,cpu:/system.slice/ci runner.service\n",
    "memory/system.slice/ci runner.service/memory.limit_in_bytes": "536870912\n",
    "memory/system.slice/ci runner.service/memory.usage_in_bytes": "36870912\n",
    "memory/memory.limit_in_bytes": "9223372036854771712\n",
    "memory/memory.usage_in_bytes": "99999999999\n",
    "cpu/system.slice/cpu.cfs_quota_us": "150000\n",
    "cpu/system.slice/cpu.cfs_period_us": "100000\n",
    "cpu/cpu.cfs_quota_us": "-1\n",
    "cpu/cpu.cfs_period_us": "100000\n",
}
V2_NAMESPACE = {
    "proc": "0::/\n",
    "memory.max": "536870912\n",
    "memory.high": "500000000\n",
    "memory.current": "0\n",
    "cpu.max": "150000 100000\n",
}


def facts_of(tree: dict[str, str], directory: Path) -> dict[str, object]:
    """The facts that the program finds where the cgroup file systems are as in `tree`."""
    for name, content in tree.items():
        path = directory / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    program = scripts.FACTS.replace("/sys/fs/cgroup", str(directory / "fs"))
    program = program.replace("/proc/self/cgroup", str(directory / "fs" / "proc"))
    argv = ["sh", "-c", program, "sh", str(directory)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return parse_facts(done.stdout)


@pytest.mark.parametrize(
    ("tree", "limit", "available"),
    [
        (V2, 536870912, 500_000_000),
        (V1, 536870912, 500_000_000),
        (V1_SYSTEMD, 536870912, 500_000_000),
        (V2_NAMESPACE, 500_000_000, 500_000_000),
    ],
    ids=["v2", "v1", "v1-systemd", "v2-namespace"],
)
def test_the_limits_of_a_container_are_found(
    tree: dict[str, str], limit: int, available: int, tmp_path: Path
) -> None:
    facts = facts_of(tree, tmp_path)
    assert facts["cgroup_memory_max_bytes"] == limit
    assert facts["memory_available_bytes"] == available
    assert facts["cgroup_cpu_max"] == "150000 100000"
    assert usable_memory(facts) == limit


@pytest.mark.parametrize(
    "proc",
    ["", "0::\n", "0::app\n", "0::/../..\n", "nonsense\n", "0::/a\n0::/b\n4:memory:\n1:cpu:cpu\n"],
    ids=["empty", "no path", "relative", "above", "nonsense", "twice"],
)
def test_an_odd_list_of_cgroups_is_no_limit_and_holds_nobody_up(proc: str, tmp_path: Path) -> None:
    facts = facts_of({"proc": proc}, tmp_path)
    assert not {"cgroup_memory_max_bytes", "cgroup_cpu_max"} & set(facts)


def test_limits_of_a_process() -> None:
    text = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              60                   unlimited            seconds
Max file size             unlimited            unlimited            bytes
Max data size             unlimited            unlimited            bytes
Max stack size            8388608              unlimited            bytes
Max processes             300                  98611                processes
Max open files            20000                20000                files
Max address space         307200000            307200000            bytes
"""
    limits = parse_facts(printed(limits=text))["process_limits"]
    assert limits == {"cpu time": 60, "processes": 300, "address space": 307200000}
    assert "process_limits" not in parse_facts(printed(limits=""))


@pytest.mark.parametrize(
    ("online", "affinity", "allowed", "usable"),
    [
        ("0-3", "0-127", "0-3", 4),  # a virtual machine with room for more CPUs
        ("0,2,4,6", "0-7", "0,2,4,6", 4),  # SMT is off
        ("0-3", "2-5", "2-3", 2),  # a CPU set that lost some
        ("1-3", "0-3", "1-3", 3),
        ("", "0-7", "0-7", 8),  # no /sys
    ],
)
def test_cpus_that_are_offline_are_not_available(
    online: str, affinity: str, allowed: str, usable: int
) -> None:
    """The kernel lists all CPUs that may ever come as allowed."""
    facts = parse_facts(printed(online=online, affinity=f"Cpus_allowed_list:\t{affinity}"))
    assert facts["cpus_allowed"] == allowed
    assert usable_cpus(facts) == usable


def test_what_may_be_used_is_the_least_of_all_limits() -> None:
    assert usable_cpus({"cpus": 8, "cpus_allowed": "0-3", "cgroup_cpu_max": "150000 100000"}) == 1.5
    assert usable_cpus({"cpus": 8, "cpus_allowed": "0-3", "cgroup_cpu_max": "max 100000"}) == 4
    assert usable_cpus({}) is None
    assert usable_memory({"memory_bytes": 5, "cgroup_memory_max_bytes": 9}) == 5
    assert usable_memory({}) is None


@pytest.mark.parametrize(
    ("facts", "jobs"),
    [
        ({"cpus": 64, "cgroup_cpu_max": "150000 100000", "memory_available_bytes": 4 * 10**9}, 2),
        ({"cpus": 64, "memory_available_bytes": 4 * 10**9}, 4),
        ({"cpus": 2, "cpus_allowed": "1", "memory_available_bytes": 4 * 10**9}, 1),
        ({"cpus": 64, "memory_available_bytes": 10**8}, 1),
        ({"cpus": 64}, 64),
        ({}, NO_LIMIT),
    ],
)
def test_compilers_fit_into_cpus_and_memory(facts: dict[str, object], jobs: int) -> None:
    assert compile_jobs(facts) == jobs


@pytest.mark.parametrize("path", [None, "", "/nowhere"])
def test_what_this_machine_has_available_is_known_before_a_run(
    monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    if path is not None:
        monkeypatch.setenv("PATH", path)
    available = memory_available_here()
    assert available is not None
    assert available > 0
