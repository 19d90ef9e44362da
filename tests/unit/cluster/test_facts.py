"""The facts of hosts that we do not have here, from what they would print."""

from __future__ import annotations

from perfrunner.cluster.facts import STABLE_FACTS, parse_facts


def printed(**records: str) -> str:
    return "".join(f"\036{name}\037{text}\n" for name, text in records.items())


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
            cpu_max="max 100000\n150000 100000\n20000 10000", memory_max="max\n4096\n8192", nice="5"
        )
    )
    assert facts == {
        "cgroup_cpu_max": "150000 100000",
        "cgroup_memory_max_bytes": 4096,
        "niceness": 5,
    }


def test_no_limit_is_no_fact() -> None:
    """A history that was begun before these were read goes on where there is none."""
    facts = parse_facts(printed(cpu_max="max 100000\nmax 100000", memory_max="max\nmax", nice="0"))
    assert facts == {"cgroup_cpu_max": "max 100000"}


def test_a_container_says_so() -> None:
    facts = parse_facts(printed(host="3f2a", container="/.dockerenv"))
    assert facts == {"hostname": "3f2a", "container": True}


def test_what_varies_by_nature_is_not_stable() -> None:
    assert not {"load_average", "memory_available_bytes", "disk_free_bytes"} & set(STABLE_FACTS)
