"""The output of perf stat, of hosts with and without counters."""

from __future__ import annotations

from perfrunner.measure.cpu_profile import added_counts, parse_stat, stat_command

COUNTED = """\
# started on Sat Nov 28 13:40:46 2026

1500.25,msec,task-clock,1500250000,100.00,0.750,CPUs utilized
6000000000,,instructions:u,1500250000,100.00,2.00,insn per cycle
3000000000,,cycles:u,1500250000,100.00,2.000,GHz
500000,,branch-misses,1500250000,80.00,0.10,of all branches
"""
NOT_COUNTED = """\
1500.25,msec,task-clock,1500250000,100.00,0.750,CPUs utilized
<not supported>,,instructions,0,100.00,,
<not counted>,,cycles,0,100.00,,
"""


def test_counts_by_name_and_cpu_time_in_nanoseconds():
    assert parse_stat(COUNTED) == {
        "task-clock": 1_500_250_000.0,
        "instructions": 6e9,
        "cycles": 3e9,
        "branch-misses": 5e5,
    }


def test_what_a_host_does_not_count_is_left_out():
    assert parse_stat(NOT_COUNTED) == {"task-clock": 1_500_250_000.0}
    assert parse_stat("") == {}


def test_processes_are_added_for_what_all_of_them_counted():
    whole, part = parse_stat(COUNTED), parse_stat(NOT_COUNTED)
    assert added_counts([whole, whole])["cycles"] == 6e9
    assert added_counts([whole, part]) == {"task-clock": 3_000_500_000.0}
    assert added_counts([]) == {}


def test_one_process_is_counted_into_a_file():
    command = stat_command(17, "/w/counts.csv")
    assert command[1] == "stat"
    assert "--pid=17" in command
    assert "--output=/w/counts.csv" in command
