"""Real servers as variants: what is read back, measured, refused and cleaned up."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.servers.conftest import (
    ServerLab,
    memcached,
    redis,
    script,
    settings_of,
)

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_two_memcacheds_are_measured(servers: ServerLab):
    single, two = memcached("-t", "1", "-B", "ascii"), memcached("-t", "2", "-m", "128")
    mine = servers.directory / "mine"  # known by its content: for root it gets -u
    mine.write_bytes(Path(single["server"]["command"][0]).read_bytes())
    mine.chmod(0o755)
    two["server"]["command"][0] = str(mine)
    servers.write({"one": single, "two": two})
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    assert settings_of(driver, "one")["server.protocol"] == "text"
    assert settings_of(driver, "one")["server.binding_protocol"] == "ascii"
    assert settings_of(driver, "two") == {
        "server.kind": "memcached",
        "server.version": settings_of(driver, "one")["server.version"],
        "server.protocol": "binary",
        "server.num_threads": "2",
        "server.maxbytes": str(128 * 1024**2),
    }
    data = servers.data()
    trials = {trial.variant: trial for trial in data.trials}
    assert {trial.status for trial in data.trials} == {"ok"}
    for trial in trials.values():
        assert trial.bucket == "-"
        assert trial.metrics["ops_per_s"] > 0
        assert trial.metrics["rss_bytes"] > 1 << 20
        assert trial.metrics["mem_used_bytes"] > 2000 * 100
        assert trial.metrics["server_cpu_us_per_op"] > 0
    assert len({build.build_id.partition("-")[2] for build in data.builds}) == 1, "one content"
    servers.assert_nothing_left()


@pytest.mark.long
def test_a_launcher_is_not_the_server(servers: ServerLab, tmp_path: Path):
    """`-c 0` is of taskset, and not the connections of memcached; the builds are those of the servers."""
    command = memcached("-t", "2")["server"]["command"]
    shell = f"exec {command[0]} -p {{port}} -l 127.0.0.1 -u root -t 2"
    other = script(tmp_path / "memcached", f"import os, sys\nos.execv({command[0]!r}, sys.argv)\n")
    servers.write(
        {
            "one": {"server": {"command": ["taskset", "-c", "0", *command]}},
            "two": {"server": {"command": ["nice", "-n", "5", other, *command[1:]]}},
            "three": {"server": {"command": ["sh", "-c", shell]}},
        }
    )
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    assert settings_of(driver, "one")["server.num_threads"] == "2"
    assert all(trial.metrics["rss_bytes"] > 4 << 20 for trial in servers.data().trials)
    builds = {build.variant: build for build in servers.data().builds}
    about = {name: build.provenance["server"] for name, build in builds.items()}
    assert [about[name]["launched"] for name in ("one", "two")] == [command[0], other]
    digest = about["one"]["launched_sha256"]
    assert [about[name]["serves_sha256"] for name in ("two", "three")] == [digest] * 2
    assert all(build.build_id.startswith("memcached-") for build in builds.values())
    assert len({build.build_id for build in builds.values()}) == 3
    warned = [event["message"] for event in driver.of("Warned")]
    chosen = [text for text in warned if "overrides the CPUs" in text]
    assert [text.partition(" in its command")[0] for text in chosen] == ["one: taskset"]


@pytest.mark.long
def test_its_reproduce_script_runs(servers: ServerLab, tmp_path: Path):
    servers.write({"one": memcached(), "two": memcached("-t", "1")})
    assert servers.measure()[0] == 0
    (raw,) = [t.raw_dir for t in servers.data().trials if t.variant == "one"]
    done = subprocess.run(
        ["bash", str(servers.out / raw / "reproduce.sh")],
        capture_output=True, text=True, check=False, timeout=600, env={"OUT": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(next(tmp_path.glob("client*.out")).read_text())
    assert len(report["group"]["variants"]) == 2


def test_a_setting_that_did_not_take_effect_fails_the_run_before_measuring(
    servers: ServerLab, tmp_path: Path
):
    """A wrapper that drops an option: what was asked for is not what runs."""
    real = memcached()["server"]["command"][0]
    wrapper = script(
        tmp_path / "memcached",
        "import os, sys\nwords = [w for w in sys.argv[1:] if w not in ('-t', '3')]\n"
        f"os.execv({real!r}, [{real!r}, *words])\n",
    )
    servers.write(
        {"one": memcached(), "two": {"server": {"command": [wrapper, "-p", "{port}", "-t", "3"]}}}
    )
    code, driver = servers.measure()
    assert code == 3
    assert "variant two: num_threads: the command asks for 3, the server has 4" in driver.stderr()
    assert driver.of("TrialStarted") == []
    servers.assert_nothing_left()


def test_tunables_of_glibc_are_read_back(servers: ServerLab):
    """glibc takes the nearest number that it can, without a word."""
    given = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2", "MALLOC_MMAP_THRESHOLD_": "65536"}
    servers.write({"one": memcached(), "two": {**memcached(), "env": given}})
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    settings = settings_of(driver, "two")
    assert {name: int(value, 0) for name, value in settings.items() if "env." in name} == {
        "env.glibc.malloc.arena_max": 2,
        "env.glibc.malloc.mmap_threshold": 65536,
    }
    given["GLIBC_TUNABLES"] = "glibc.malloc.arena_max=-1"
    servers.write({"one": memcached(), "two": {**memcached(), "env": given}})
    code, driver = servers.measure()
    assert (code, driver.of("TrialStarted")) == (3, [])
    assert "glibc.malloc.arena_max: asked for -1, glibc has 0xffff" in driver.stderr()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import sys\nsys.exit('cannot open /etc/x')\n",
            "ended while it started (exit 1): cannot open /etc/x",
        ),
        pytest.param(
            "import os, socket, sys, time\ns = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
            "if os.fork(): os._exit(0)\nos.setsid()\ntime.sleep(600)\n",
            "went into the background",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "import time\ntime.sleep(600)\n", "was not ready within", marks=pytest.mark.long
        ),
        (
            "import os, socket, sys, time\ns = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
            "if os.fork():\n    s.close()\n    os.wait()\ntime.sleep(600)\n",
            "started another process (work-server",
        ),
        (
            "import os, socket, sys, time\ns = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
            "if os.fork():\n    s.close()\n    time.sleep(600)\n"
            "import signal\nos.setsid()\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(600)\n",
            "started another process (work-server",
        ),
        pytest.param(
            "import socket, sys, time\ns = socket.create_server(('127.0.0.2', int(sys.argv[1])))\n"
            "time.sleep(600)\n",
            "hint: the command must serve on 127.0.0.1, on the port that stands for {port}",
            marks=pytest.mark.long,
        ),
    ],
    ids=["ends", "daemon", "never ready", "wrapper", "daemon of a wrapper", "another address"],
)
def test_a_server_that_does_not_start(servers: ServerLab, tmp_path: Path, text: str, message: str):
    command = [script(tmp_path / "work-server", text), "{port}", str(servers.work) + "/"]
    servers.write({"one": {"server": {"command": command}}, "two": memcached()})
    code, driver = servers.measure(ready_timeout=2.0)
    printed = driver.stderr()
    assert (code, driver.of("TrialStarted")) == (3, [])
    assert message in printed
    assert "hint:" in printed
    servers.assert_nothing_left()


def test_a_server_of_another_kind_is_reported(servers: ServerLab):
    wrong = memcached("-u", "root")
    wrong["server"]["kind"] = "redis"
    servers.write({"one": memcached(), "two": wrong})
    code, driver = servers.measure()
    assert code == 3
    assert "does not speak the protocol of redis" in driver.stderr()
    servers.assert_nothing_left()


def test_a_crash_fails_its_trial_with_the_last_lines(servers: ServerLab, tmp_path: Path):
    """The other variant of the group is discarded, not failed."""
    real = memcached()["server"]["command"][0]
    marker = tmp_path / "checked"
    wrapper = script(
        tmp_path / "crashing",
        f"import os, sys, time\n"
        f"if not os.path.exists({str(marker)!r}):\n    open({str(marker)!r}, 'w')\n"
        f"elif not os.fork():\n    time.sleep(0.6)\n    print('out of luck', file=sys.stderr, flush=True)\n"
        f"    os.kill(os.getppid(), 11)\n    os._exit(0)\n"
        f"os.execv({real!r}, [{real!r}, *sys.argv[1:]])\n",
    )
    bad = {"server": {"kind": "memcached", "command": [wrapper, "-p", "{port}"]}}
    servers.write({"good": memcached(), "bad": bad}, {"duration": 5}, limits={"max_discarded": 0})
    code, _ = servers.measure()
    assert code == 3
    trials = {trial.variant: trial for trial in servers.data().trials}
    assert trials["bad"].status == "failed"
    assert trials["bad"].reason.startswith("crashing on here")
    assert "out of luck" in trials["bad"].reason
    assert trials["good"].status == "discarded"
    servers.assert_nothing_left()


def test_a_program_that_is_built_again_during_a_run_ends_it(servers: ServerLab, tmp_path: Path):
    """Its trials would be of two programs under one name. Here each start replaces the file that was started."""
    real = memcached()["server"]["command"][0]
    wrapper = tmp_path / "rebuilt"
    text = (
        f"import os, shutil, sys\nshutil.copy({str(wrapper)!r}, {str(tmp_path / 'new')!r})\n"
        f"os.replace({str(tmp_path / 'new')!r}, {str(wrapper)!r})\n"
        f"os.execv({real!r}, [{real!r}, *sys.argv[1:]])\n"
    )
    variants = {"good": memcached(), "bad": memcached()}
    variants["bad"]["server"] |= {"kind": "memcached"}
    variants["bad"]["server"]["command"][0] = script(wrapper, text)
    servers.write(variants)
    code, driver = servers.measure()
    assert code == 3
    assert f"rebuilt on here: {wrapper} has changed since the run began" in driver.stderr()
    servers.assert_nothing_left()


def test_a_script_behind_an_interpreter_that_changes_during_a_run_ends_it(
    servers: ServerLab, tmp_path: Path
):
    """The program is the interpreter, which stays the same."""
    real = memcached()["server"]["command"][0]
    source = tmp_path / "server.sh"
    replace = f"cp {source} {source}.new; touch -d @1 {source}.new; mv {source}.new {source}"
    source.write_text(f'{replace}\nexec {real} "$@"\n')
    os.utime(source, (1, 1))
    variants = {"good": memcached(), "bad": memcached()}
    variants["bad"]["server"] |= {"kind": "memcached"}
    variants["bad"]["server"]["command"][:1] = ["/bin/sh", str(source)]
    servers.write(variants)
    code, driver = servers.measure()
    assert code == 3
    assert f"{source} has changed since the run began" in driver.stderr()
    servers.assert_nothing_left()


@pytest.mark.long
def test_evictions_fail_the_trial_with_what_to_do(servers: ServerLab):
    servers.write(
        {"one": memcached("-m", "2", "-I", "512k"), "two": memcached()},
        {"items": 20_000, "value_size": 1000},
    )
    code, _ = servers.measure()
    assert code == 3
    failed = [trial for trial in servers.data().trials if trial.status == "failed"]
    assert {trial.variant for trial in failed} == {"one"}, [trial.reason for trial in failed]
    assert "evicted" in failed[0].reason
    assert "memory limit is too small" in failed[0].reason


@pytest.mark.long
def test_a_server_that_closes_connections_says_why(servers: ServerLab):
    limit = ("--client-output-buffer-limit", "normal", "1", "1", "1")
    servers.write({"one": memcached(), "two": redis(*limit)}, limits={"max_discarded": 0})
    assert servers.measure()[0] == 3
    (failed,) = (trial for trial in servers.data().trials if trial.status == "failed")
    assert failed.variant == "two"
    assert "connection closed by the server" in failed.reason
    assert "the log of redis-server on here ends with: " in failed.reason
    assert "output buffer limits" in failed.reason


@pytest.mark.long
def test_sets_that_are_refused_for_lack_of_memory_fail_the_trial(servers: ServerLab):
    """memcached -M and Redis by default refuse instead of evicting."""
    large = {"items": 4000, "value_size": 1000}
    variants = {"one": memcached(), "two": redis("--maxmemory", "2mb")}
    servers.write(variants, large, limits={"max_discarded": 0})
    assert servers.measure()[0] == 3
    (failed,) = (trial for trial in servers.data().trials if trial.status == "failed")
    assert failed.variant == "two"
    assert failed.reason.startswith("redis-server on here refused ")
    assert "raise it (memcached -m MiB, redis --maxmemory)" in failed.reason


@pytest.mark.long
def test_values_that_a_server_does_not_take_fail_its_trial(servers: ServerLab):
    """Nothing was stored: the load would measure misses."""
    small = memcached("-I", "2k", "-o", "slab_chunk_max=1")
    servers.write({"one": memcached(), "two": small}, {"value_size": 4000})
    assert servers.measure()[0] == 3
    failed = [trial for trial in servers.data().trials if trial.status == "failed"]
    assert {trial.variant for trial in failed} == {"two"}
    assert "refused all 2000 items" in failed[0].reason
    assert "memcached -I" in failed[0].reason


@pytest.mark.long
def test_a_server_built_from_a_repository(servers: ServerLab, tmp_path: Path):
    """Each revision is checked out and built once; a resumed run keeps its commit."""
    real = memcached()["server"]["command"][0]
    repository = tmp_path / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    for threads in ("1", "2"):
        (repository / "server.in").write_text(f'#!/bin/sh\nexec {real} "$@" -t {threads}\n')
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", threads], check=True)
    server = {
        "git": str(repository), "kind": "memcached", "command": ["bin/server", "-p", "{port}"],
        "build": [["mkdir", "bin"], ["cp", "server.in", "bin/server"], ["chmod", "+x", "bin/server"]],
    }  # fmt: skip
    servers.write(
        {v: {"server": {**server, "revision": r}} for v, r in (("old", "main~1"), ("new", "main"))}
    )
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    builds = {build.variant: build for build in servers.data().builds}
    titles = {name: build.provenance["server"]["title"] for name, build in builds.items()}
    assert titles == {"old": "1", "new": "2"}
    assert builds["old"].build_id != builds["new"].build_id
    stats = json.loads(next(servers.out.glob("*/trials/*-new/server-stat.json")).read_text())
    assert stats["settings"]["num_threads"] == "2"
    code, driver = servers.measure()
    assert [e["cached"] for e in driver.of("BuildFinished")] == [True] * 3, "built once"


def test_a_failing_build_shows_the_end_of_its_output(servers: ServerLab, tmp_path: Path):
    repository = tmp_path / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    server = {
        "git": str(repository), "command": ["server", "{port}"],
        "build": [["sh", "-c", "echo error: no compiler; exit 9"]],
    }  # fmt: skip
    servers.write({"one": memcached(), "two": {"server": server}})
    code, driver = servers.measure()
    printed = driver.stderr()
    assert code == 3
    assert "error: no compiler" in printed
    assert "log: " in printed


@pytest.mark.long
def test_an_unknown_server_works_with_process_figures_alone(servers: ServerLab, tmp_path: Path):
    """A command of another name that answers memcached's binary protocol and nothing else."""
    real = memcached()["server"]["command"][0]
    wrapper = script(
        tmp_path / "mystery", f"import os, sys\nos.execv({real!r}, [{real!r}, *sys.argv[1:]])\n"
    )
    unknown = {
        "server": {
            "kind": "other",
            "protocol": "binary",
            "command": [wrapper, "-u", "root", "-l", "127.0.0.1", "-p", "{port}"],
        }
    }
    servers.write({"one": unknown, "two": {**unknown, "env": {"A": "b"}}})
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    assert any("only figures of the process" in event["message"] for event in driver.of("Warned"))
    assert "not checked" in settings_of(driver, "one")["server.version"]
    for trial in servers.data().trials:
        assert trial.metrics["rss_bytes"] > 1 << 20
        assert "mem_used_bytes" not in trial.metrics


@pytest.mark.long
@pytest.mark.parametrize(
    "protocols",
    [
        pytest.param(("binary", "text", "meta"), id="memcached"),
        pytest.param(("resp2", "resp3"), id="redis"),
    ],
)
def test_items_are_deleted_and_come_back_with_another_size(
    servers: ServerLab, protocols: tuple[str, ...]
):
    """The same items in every protocol; their memory over that time is a fact of the trial."""
    start = redis if protocols[0].startswith("resp") else memcached
    variants = {name: start() for name in protocols}
    for name, variant in variants.items():
        variant["server"]["protocol"] = name
    churn = {"delete": 60, "wait": 0.2, "value_size": [2000, 3000]}
    load = {"items": 5000, "value_size": [50, 800], "sizes": "lognormal", "churn": churn}
    servers.write(variants, load)
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    for trial in servers.data().trials:
        assert trial.status == "ok", trial.reason
        assert 0 < trial.metrics["rss_deleted_bytes"] < trial.metrics["rss_regrown_bytes"]
        assert trial.metrics["rss_regrown_bytes"] > trial.metrics["rss_full_bytes"]
        assert "rss_returned" in trial.metrics
        times = [point[0] for point in trial.facts["rss_over_time"]]
        assert times == sorted(times)
        assert times[0] == 0
        full, deleted, regrown = trial.facts["churn_ends"]
        assert 0 < full < full + 0.2 < deleted < regrown
        reports = [
            json.loads((servers.out / trial.raw_dir / f"{name}.json").read_text())["populate"]
            for name in ("populate", "delete", "regrow")
        ]
        assert reports[0]["ops"] == 5000
        assert reports[1]["ops"] == reports[2]["ops"]
        assert 0.5 * 5000 < reports[1]["ops"] < 0.7 * 5000
        assert all(sum(report["errors"].values()) == 0 for report in reports)


@pytest.mark.long
def test_documents_walk_through_sizes_and_their_keys_through_lengths(servers: ServerLab):
    """The load knows the length that each key has in the end: it misses none."""
    churn = {"delete": 67, "wait": 0, "value_size": 16, "steps": [32, 48]}
    load = {"items": 3000, "value_size": 8, "key_size": [20, 250], "churn": churn}
    servers.write({"memcached": memcached(), "redis": redis()}, load)
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    for trial in servers.data().trials:
        assert trial.status == "ok", trial.reason
        directory = servers.out / trial.raw_dir
        ops = [
            json.loads((directory / f"{name}.json").read_text())["populate"]["ops"]
            for name in ("delete", "regrow", "delete-1", "step-1", "delete-2", "step-2")
        ]
        assert ops[::2] == ops[1::2]
        assert len(set(ops)) == 3, "each step draws other items"
        access = json.loads((directory / "client.json").read_text())["access"]
        assert access["misses"] == 0
        assert access["verified"] > 0
