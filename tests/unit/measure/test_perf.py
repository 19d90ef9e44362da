"""What is reported where perf cannot record, by programs that behave as it does there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perfrunner.errors import HostError, TrialError
from perfrunner.hosts import open_host
from perfrunner.hosts.transport import Transport
from perfrunner.measure import cpu_profile as perf
from perfrunner.spec.cluster import HostSpec


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Transport]:
    with open_host(HostSpec(work_dir=str(tmp_path / "work")), "local", name="node") as opened:
        yield opened.transport


def program(monkeypatch: pytest.MonkeyPatch, directory: Path, text: str) -> None:
    path = directory / "perf"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    monkeypatch.setattr(perf, "PROGRAM", str(path))


def refusal(host: Transport) -> HostError:
    with pytest.raises(HostError) as raised:
        perf.check_perf(host, host.work_dir, "pf")
    assert "\n" not in raised.value.message
    assert not Path(host.work_dir, "perf-check.data").exists()
    return raised.value


def test_where_it_records_the_event_is_reported(host, monkeypatch, tmp_path) -> None:
    program(monkeypatch, tmp_path, 'if [ "$1" = evlist ]; then echo cpu-clock:u; fi')
    assert perf.check_perf(host, host.work_dir, "pf") == "cpu-clock:u"


def test_no_perf_names_the_package(host, monkeypatch) -> None:
    monkeypatch.setattr(perf, "PROGRAM", "/nowhere/perf")
    error = refusal(host)
    assert error.message == "node: perf is not installed"
    assert error.hint == "apt-get install linux-perf, or remove `profile` from workload pf"


@pytest.mark.parametrize("level", [2, 3, 4])
def test_a_kernel_that_forbids_it_names_the_setting(host, monkeypatch, tmp_path, level) -> None:
    program(monkeypatch, tmp_path, "echo 'Error: Access  is limited.' >&2; exit 255")
    setting = tmp_path / "paranoid"
    setting.write_text(f"{level}\n")
    monkeypatch.setattr(perf, "_PARANOID", str(setting))
    error = refusal(host)
    if level == 2:  # which allows it: something else forbids it
        assert error.message == "node: perf cannot record (status 255): Error: Access is limited."
        assert "CAP_PERFMON" in str(error.hint)
    else:
        assert error.message.endswith(f"(perf_event_paranoid is {level})")
        assert str(error.hint).startswith("sysctl -w kernel.perf_event_paranoid=2")


def test_a_silent_refusal_is_reported_as_such(host, monkeypatch, tmp_path) -> None:
    program(monkeypatch, tmp_path, "exit 1")
    monkeypatch.setattr(perf, "_PARANOID", str(tmp_path / "none"))
    assert refusal(host).message.endswith("(status 1): no reason given")


def test_what_it_printed_is_fetched_and_folded(host, tmp_path) -> None:
    printed = f"{host.work_dir}/names.txt"
    host.put_bytes(b"t\n\t 1f f (/a)\n\nt\n\t 1f f (/a)\n\n", printed)
    kept = tmp_path / "names.gz"
    assert perf.fetch_folded(host, printed, kept).counts == {("t", "f"): 2}
    assert not kept.exists()


def test_what_arrives_damaged_is_an_error(host, monkeypatch, tmp_path) -> None:
    host.put_bytes(b"t\n", f"{host.work_dir}/names.txt")

    def torn(remote: str, local: Path) -> None:
        del remote
        local.write_bytes(b"\x1f\x8b\x08\x00")

    monkeypatch.setattr(host, "get_file", torn)
    with pytest.raises(TrialError, match="arrived damaged"):
        perf.fetch_folded(host, f"{host.work_dir}/names.txt", tmp_path / "names.gz")


def test_a_recording_that_filled_its_file_was_cut_short(host, monkeypatch) -> None:
    data = f"{host.work_dir}/p.data"
    host.put_bytes(b"12345678", data)
    assert not perf.is_full(host, data)
    monkeypatch.setattr(perf, "MOST_BYTES", 8)
    assert perf.is_full(host, data)


@pytest.mark.parametrize(("enforcing", "named"), [("1\n", True), ("0\n", False), (None, False)])
def test_an_enforcing_selinux_is_named(host, monkeypatch, tmp_path, enforcing, named) -> None:
    program(monkeypatch, tmp_path, "echo 'Permission denied' >&2; exit 255")
    monkeypatch.setattr(perf, "_PARANOID", str(tmp_path / "none"))
    monkeypatch.setattr(perf, "_SELINUX", str(tmp_path / "enforce"))
    if enforcing is not None:
        (tmp_path / "enforce").write_text(enforcing)
    assert ("ausearch" in str(refusal(host).hint)) == named
