"""What the doctor says of facts, and of two looks at /proc/stat."""

from __future__ import annotations

import pytest

from perfrunner.build.builders import Platform
from perfrunner.experiment.preflight.health import CHECKS, cpu_shares, host_findings, judge_platform
from perfrunner.experiment.preflight.hosts import _warnings as start_warnings

DEBIAN = Platform("Linux", "x86_64", "glibc 2.36")
WELL = {
    "machine": "x86_64",
    "glibc": "glibc 99.1",
    "boot_id": "0b5a51d7",
    "governor": "performance",
    "turbo": False,
    "load_average": 0.1,
    "cpus": 4,
    "cpus_allowed": "0-3",
    "clock_source": "tsc",
    "aslr": "2",
    "cgroup_cpu_max": "max 100000",
    "memory_bytes": 64 * 10**9,
    "thp_enabled": "madvise",
    "overcommit_memory": "0",
    "page_bytes": 4096,
    "swap_bytes": 0,
    "disk_free_bytes": 100 * 10**9,
    "work_dir_filesystem": "ext4",
    "work_dir_options": "rw,relatime",
    "open_files_limit": "unlimited",
    "process_limits": {"processes": 98611},
}


def test_a_well_kept_host_passes_every_check() -> None:
    results = host_findings("h", WELL, DEBIAN)
    assert [f.subject for f in results] == ["programs", *CHECKS]
    assert {f.grade for f in results} == {"ok"}
    assert {f.remedy for f in results} == {""}


@pytest.mark.parametrize(
    ("subject", "change", "grade", "text"),
    [
        ("programs", {"machine": "riscv64"}, "problem", "it is a riscv64"),
        ("programs", {"glibc": "glibc 2.1"}, "problem", "it has glibc 2.1, and programs are built"),
        ("programs", {"glibc": None}, "problem", "it has no glibc"),
        ("governor", {"governor": "powersave"}, "warning", "powersave"),
        ("turbo", {"turbo": True}, "warning", "turbo is on"),
        ("load", {"load_average": 2.5}, "warning", "2.5 on 4 CPUs"),
        (
            "process limits",
            {"process_limits": {"processes": 300}},
            "warning",
            "limited: processes 300",
        ),
        (
            "process limits",
            {"process_limits": {"cpu time": 60, "address space": 2 << 30}},
            "warning",
            "limited: cpu time 60 s, address space 2.1 GB",
        ),
        ("pinning", {"cpus_allowed": "0,2"}, "warning", "only 2 of 4"),
        (
            "CPU quota",
            {"cgroup_cpu_max": "150000 100000"},
            "warning",
            "a CPU quota of 1.5 of 4 CPUs",
        ),
        (
            "memory limit",
            {"cgroup_memory_max_bytes": 512 << 20},
            "warning",
            "may use 0.5 of 64.0 GB",
        ),
        ("huge pages", {"thp_enabled": "never"}, "warning", "metadata_thp and thp have no effect"),
        (
            "overcommit",
            {"overcommit_memory": "2"},
            "warning",
            "reservations of an allocator may fail",
        ),
        ("page size", {"page_bytes": 65536}, "warning", "64 KiB"),
        ("clock source", {"clock_source": "hpet"}, "warning", "hpet"),
        ("address layout", {"aslr": "0"}, "warning", "off"),
        ("swap", {"swap_bytes": 2 * 10**9}, "warning", "2.0 GB"),
        ("disk", {"disk_free_bytes": 5 * 10**9}, "warning", "5.0 GB"),
        ("disk", {"disk_free_bytes": 10**8}, "problem", "0.1 GB"),
        ("disk", {"inodes_free": 3}, "problem", "No space left on device: only 3 more files"),
        ("work directory", {"work_dir_options": "rw,noexec"}, "problem", "mounted noexec"),
        ("work directory", {"work_dir_filesystem": "nfs4"}, "problem", "is on nfs4"),
        ("work directory", {"work_dir_filesystem": "fuse.sshfs"}, "problem", "of a network"),
        ("open files", {"open_files_limit": "256"}, "warning", "256"),
    ],
)
def test_each_fault_is_named_with_a_remedy(
    subject: str, change: dict[str, object], grade: str, text: str
) -> None:
    bad = [f for f in host_findings("h", {**WELL, **change}, DEBIAN) if f.grade != "ok"]
    assert [(f.place, f.subject, f.grade) for f in bad] == [("h", subject, grade)]
    assert text in bad[0].text
    assert bad[0].remedy


def test_what_a_host_does_not_show_is_not_judged() -> None:
    assert host_findings("h", {}, DEBIAN) == []
    assert host_findings("h", {}) == []


@pytest.mark.parametrize(
    ("there", "fits"), [("glibc 2.36", True), ("glibc 2.4", False), ("glibc 2.100", True)]
)
def test_versions_are_compared_as_numbers(there: str, fits: bool) -> None:
    results = judge_platform({"machine": "x86_64", "glibc": there}, DEBIAN)
    assert results is not None
    assert (results.grade == "ok") is fits


@pytest.mark.parametrize(
    ("built", "change", "text"),
    [
        (
            Platform("Linux", "aarch64", "glibc 2.36", "on kvbuild"),
            {},
            "it is a x86_64, and programs are built on kvbuild for aarch64",
        ),
        (
            Platform("Linux", "x86_64", "", "on alpine"),
            {},
            "it has glibc 99.1; programs are built on alpine with another libc",
        ),
        (
            Platform("Darwin", "x86_64", ""),
            {},
            "it runs Linux, and programs are built here for Darwin",
        ),
        (DEBIAN, {"bits": 32}, "it runs 32-bit programs, and programs are built here with 64 bits"),
        (DEBIAN, {"bits": 64}, None),
        (DEBIAN, {"glibc": None}, "it has no glibc; programs are built here with glibc 2.36"),
        (Platform("Linux", "x86_64", ""), {"glibc": None}, None),
        (Platform("Linux", "x86_64", "glibc 2.41", "on kvbuild"), {}, None),
    ],
)
def test_a_host_that_cannot_run_what_is_built(
    built: Platform, change: dict[str, object], text: str | None
) -> None:
    facts = {key: value for key, value in {**WELL, **change}.items() if value is not None}
    results = judge_platform(facts, built)
    assert results is not None
    if text is None:
        assert results.grade == "ok"
    else:
        assert (results.grade, results.text) == ("problem", text)
        assert "build_host" in results.remedy


def test_shares_of_cpu_time_between_two_looks() -> None:
    first = "cpu  100 0 50 800 10 0 0 5 0 0"
    second = "cpu  130 5 60 840 10 2 3 15 9 9"
    # 30 + 5 + 10 + 2 + 3 = 50 busy, 40 idle, 10 stolen; guest time is in user time already
    assert cpu_shares(first, second) == pytest.approx((0.5, 0.1))
    assert cpu_shares(first, first) == (0.0, 0.0)


def test_a_cpu_quota_is_reported_when_a_run_begins() -> None:
    """It throttles every figure of the run, and only `doctor` named it."""
    assert [*start_warnings("h", WELL)] == []
    limited = {**WELL, "cgroup_cpu_max": "150000 100000"}
    assert ["a CPU quota of 1.5" in text for text, _ in start_warnings("h", limited)] == [True]
