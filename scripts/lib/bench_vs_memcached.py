"""Compare the server CPU per operation of kv_engine and memcached, in pairs, with the same generator.

One pair is a fresh process of each server, in random order: populate, warm up, measure. The figure
is (utime + stime) of the server over the measured phase / operations answered in it. On few cores
this compares servers where operations per second would compare how the scheduler shared the cores.
A phase on a persistent bucket ends when everything is stored (`kvctl wait-persisted`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

TICK = os.sysconf("SC_CLK_TCK")
LIMIT_US = 0.7  # the generator may cost this much per operation, or a third of the server
STORED_S = 120  # a persistent bucket may take that long to store what it was sent

SERVERS = ("memcached", "kv_engine")


class BenchError(Exception):
    """An error: something did not run; the message says what."""


@dataclass(frozen=True)
class Measurement:
    """One server in one pair. CPU in µs per operation, split as the kernel accounts it."""

    server: str
    server_us: float
    server_user_us: float
    server_sys_us: float
    generator_us: float
    ops_per_s: float
    ops: int


Pair = dict[str, Measurement]


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Return the user and system time of a process, over all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[11]) / TICK, int(fields[12]) / TICK


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[bytes], seconds: float = 10) -> None:
    """Wait until a program listens on the port."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise BenchError(f"the server ended at once with status {process.returncode}")
        with socket.socket() as probe:
            probe.settimeout(0.5)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise BenchError(f"nobody listens on port {port} after {seconds:g} s")


@contextmanager
def running(argv: Sequence[str], port: int) -> Iterator[int]:
    """Run a server process in a new session, and end it by its pid in every case."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_for_port(port, process)
            yield process.pid
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read()[-2000:].decode(errors="replace"))
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def flags(**values: object) -> list[str]:
    """Return `--name value` pairs, with dashes for underscores."""
    return [
        word for key, value in values.items() for word in ("--" + key.replace("_", "-"), str(value))
    ]


def server_argv(server: str, options: argparse.Namespace, port: int, data_dir: str) -> list[str]:
    """Return the command line of one server."""
    threads = options.server_threads
    if server == "memcached":
        argv = f"{options.memcached} -l 127.0.0.1 -p {port} -U 0 -t {threads} -m 1024".split()
        return argv + (["-u", "root"] if os.geteuid() == 0 else [])
    place = flags(host="127.0.0.1", port=port, data_dir=data_dir, log_level="err")
    shape = flags(bucket_type=options.bucket_type, quota_mb=1024, threads=threads)
    return [str(find(options.bin, "kv_engine")), *place, *shape, *options.engine_arg]


def find(folder: Path, name: str) -> Path:
    """Return the path of a program of an artifact (bin/) or of a build tree."""
    for candidate in (
        folder / name,
        folder / "bin" / name,
        folder / "server" / name,
        folder / "load" / name,
    ):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise BenchError(f"no {name} under {folder}")


def pillowfight(
    server: str, options: argparse.Namespace, port: int, *more: str, **phase: object
) -> dict[str, Any]:
    """Run the generator and return its report."""
    shape = flags(
        port=port,
        num_items=options.items,
        batch_size=options.batch,
        min_size=options.size,
        max_size=options.size,
        set_pct=options.set_pct,
        num_threads=options.threads,
        connections=options.connections,
    )
    plain = ["--plain"] if server == "memcached" else []  # it mis-parses HELLO and what follows
    argv = [str(find(options.bin, "pillowfight")), *shape, *plain, *more, *flags(**phase)]
    limit = options.seconds + 120
    done = subprocess.run(argv, capture_output=True, text=True, timeout=limit, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip()
        raise BenchError(f"pillowfight against {server} failed ({done.returncode}): {reason}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def measure(server: str, options: argparse.Namespace, seed: int) -> Measurement:
    """Measure a fresh server: populate, warm up, measure."""
    port = free_port()
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as data_dir,
        running(server_argv(server, options, port, data_dir), port) as pid,
    ):
        pillowfight(server, options, port, "--populate-only")
        warm_up = {"duration": options.warm_up, "random_seed": seed}
        pillowfight(server, options, port, "-n", **warm_up)
        all_stored(server, options, port)
        before = cpu_seconds(pid)
        phase = {"duration": options.seconds, "random_seed": seed + 1}
        report = pillowfight(server, options, port, "-n", **phase)
        all_stored(server, options, port)
        after = cpu_seconds(pid)
    access = report["access"]
    ops = access["ops"]
    if access["misses"] or sum(access["errors"].values()):
        raise BenchError(
            f"{server}: {access['misses']} misses, errors {access['errors']}: not comparable"
        )
    user, system = ((after[i] - before[i]) * 1e6 / ops for i in range(2))
    generator = report["client"]["cpu_us_per_op"]
    return Measurement(server, user + system, user, system, generator, ops / access["seconds"], ops)


def all_stored(server: str, options: argparse.Namespace, port: int) -> None:
    """Wait until a persistent bucket has written everything."""
    if server == "memcached" or options.bucket_type != "persistent":
        return
    kvctl = str(find(options.bin, "kvctl"))
    asked = [kvctl, *flags(port=port), "wait-persisted", *flags(timeout=STORED_S)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"waiting for the disk failed ({done.returncode}): {done.stderr.strip()}")


def interval(logs: Sequence[float]) -> tuple[float, float, float]:
    """Return the geometric mean of ratios with its 95 % t interval, from their logarithms."""
    mean, error = float(np.mean(logs)), float(stats.sem(logs))
    low = high = mean
    if error:
        low, high = stats.t.interval(0.95, len(logs) - 1, loc=mean, scale=error)
    return math.exp(mean), math.exp(low), math.exp(high)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="bench-vs-memcached", description=__doc__)
    add = parser.add_argument
    add("--bin", type=Path, required=True, help="folder of both programs (default: a new build)")
    add("--memcached", default=shutil.which("memcached") or "memcached", help="its program")
    add("--pairs", type=int, default=6, help="at least 5 (default %(default)s)")
    add("--seconds", type=float, default=5, help="of each measurement (default %(default)s)")
    add("--warm-up", type=float, default=1, help="seconds before it (default %(default)s)")
    add("--items", type=int, default=100_000, help="documents (default %(default)s)")
    add("--batch", type=int, default=100, help="operations in a batch (default %(default)s)")
    add("--size", type=int, default=256, help="bytes of a value (default %(default)s)")
    add("--set-pct", type=float, default=80, help="share of SETs (default %(default)s)")
    add("--threads", type=int, default=2, help="of the generator (default %(default)s)")
    add("--connections", type=int, default=1, help="of each of them (default %(default)s)")
    add("--server-threads", type=int, default=2, help="front-end threads (default %(default)s)")
    add(
        "--bucket-type",
        choices=("ephemeral", "persistent"),
        default="ephemeral",
        help="kv_engine's; memcached has no disk to write to (default %(default)s)",
    )
    add("--engine-arg", action="append", default=[], help="one more for kv_engine, repeatable")
    add("--seed", type=int, help="of the order and the keys (default: drawn)")
    add("--json", type=Path, help="write everything there as JSON")
    add(
        "--most",
        type=float,
        default=1,
        help="the engine's CPU over memcached's that --check lets pass (default %(default)g)",
    )
    add("--check", action="store_true", help="exit 1 if the engine or the generator costs too much")
    options = parser.parse_args(arguments)
    if options.pairs < 5:
        parser.error("--pairs: fewer than 5 say too little")
    return options


@dataclass(frozen=True)
class Summary:
    """The result over all pairs. Costs are means in µs per operation."""

    ratio: float
    low: float
    high: float
    most: float
    server_us: dict[str, float]
    generator_us: dict[str, float]

    @property
    def engine_ok(self) -> bool:
        """True if the whole interval of the ratio is at or below the limit."""
        return self.high <= self.most

    @property
    def generator_ok(self) -> bool:
        """True if the generator costs at most 0.7 µs or a third of either server, whichever is larger."""
        return all(
            self.generator_us[server] <= max(LIMIT_US, self.server_us[server] / 3)
            for server in SERVERS
        )


def summarise(pairs: Sequence[Pair], most: float) -> Summary:
    """Summarise the pairs: their ratios, and the costs of each server."""
    logs = [math.log(pair["kv_engine"].server_us / pair["memcached"].server_us) for pair in pairs]
    return Summary(
        *interval(logs),
        most,
        {s: float(np.mean([pair[s].server_us for pair in pairs])) for s in SERVERS},
        {s: float(np.mean([pair[s].generator_us for pair in pairs])) for s in SERVERS},
    )


def line(label: str, server: Sequence[float], generator: Sequence[float], ratio: float) -> str:
    """Return a row of the table: memcached, then kv_engine."""
    costs = "".join(f"{s:12.3f} ({g:.3f})" for s, g in zip(server, generator, strict=True))
    return f"{label:26}{costs}{ratio:9.3f}"


def run(options: argparse.Namespace) -> int:
    """Measure all pairs, print the table and the verdict, and return the exit status."""
    drawn = random.SystemRandom().randrange(1 << 31)
    seed = drawn if options.seed is None else options.seed
    order = random.Random(seed)
    asked = subprocess.run([options.memcached, "-V"], capture_output=True, text=True, check=False)
    version = asked.stdout.strip()
    print(
        f"{version} and kv_engine ({options.bucket_type}): batch {options.batch}, {options.size} B, "
        f"{options.set_pct:g} % SET, {options.server_threads} server threads, seed {seed}"
    )
    print(
        f"{'µs of CPU per operation':26}{'memcached (gen.)':>20}{'kv_engine (gen.)':>20}    ratio"
    )
    pairs: list[Pair] = []
    for number in range(options.pairs):
        first, second = order.sample(SERVERS, 2)
        pair = {server: measure(server, options, seed + 10 * number) for server in (first, second)}
        pairs.append(pair)
        both = [pair[server] for server in SERVERS]
        cost = [m.server_us for m in both]
        label = f"pair {number + 1}, {first} first"
        print(line(label, cost, [m.generator_us for m in both], cost[1] / cost[0]), flush=True)

    summary = summarise(pairs, options.most)
    servers, generators = (
        [by[s] for s in SERVERS] for by in (summary.server_us, summary.generator_us)
    )
    bounds = f" 95 % [{summary.low:.3f}, {summary.high:.3f}]"
    print(line("mean", servers, generators, summary.ratio) + bounds)
    print(
        f"kv_engine costs at most {options.most:g} of what memcached does: "
        f"{'yes' if summary.engine_ok else 'no'}"
    )
    print(
        f"generator within {LIMIT_US} µs or a third of the server: "
        f"{'yes' if summary.generator_ok else 'no'}"
    )
    if options.json:
        document = {
            "memcached": version,
            "seed": seed,
            "cpus": os.cpu_count(),
            "options": {key: str(value) for key, value in vars(options).items()},
            "pairs": [{server: asdict(m) for server, m in pair.items()} for pair in pairs],
            **asdict(summary),
            "engine_ok": summary.engine_ok,
            "generator_ok": summary.generator_ok,
        }
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 1 if options.check and not (summary.engine_ok and summary.generator_ok) else 0


def main() -> int:
    """Return the exit status: 0 done, 1 --check failed, 3 something did not run, 130 interrupted."""
    try:
        return run(parse(sys.argv[1:]))
    except (BenchError, OSError, subprocess.TimeoutExpired) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
