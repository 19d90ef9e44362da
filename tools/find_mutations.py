"""Measure which faults of correctness the history checker finds, and after how long.

    python -m tools.find_mutations [MUTATION...] [--limit SECONDS] [--build DIRECTORY]

Builds the engine with KV_MUTATIONS (engine_src/options/mutation.h), plays runs against each fault until one is found,
and prints a Markdown table for docs/explanation/correctness.md. A run without a fault comes first: the checker must
find nothing in it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.history.nemesis import Progress, play

ROOT = Path(__file__).parents[1]
HEADER = ROOT / "engine_src" / "options" / "mutation.h"
POWER = ("missing-fsync",)  # found by power cuts only
SETTLE_S = 20.0  # so long nodes may take to become equal: a lost wakeup is found after it


@dataclass(frozen=True)
class Result:
    """The result of a search. `seconds` includes the start of nodes; None: nothing was found within the limit."""

    mutation: str
    setting: str
    seconds: float | None
    rounds: int
    operations: int
    finding: str


def mutations() -> dict[str, str]:
    """Return the description of each fault by name, from the header."""
    text = HEADER.read_text()
    about = dict(re.findall(r"^    (\w+), +///< (.+)$", text, re.MULTILINE))
    names = re.findall(r'\{"([a-z-]+)", (\w+)\}', text)
    return {name: about[enumerator] for name, enumerator in names}


def build(directory: Path) -> Path:
    """Build the engine with all faults compiled in."""
    options = ("-DKV_MUTATIONS=ON", "-DKV_TESTS=OFF", "-DKV_BENCHMARKS=OFF")
    source = ROOT / "engine_src"
    subprocess.run(
        ["cmake", "-S", source, "--preset", "release", "-B", directory, *options], check=True
    )
    subprocess.run(["cmake", "--build", directory, "--target", "kv_engine"], check=True)
    return directory / "server" / "kv_engine"


def hunt(engine: Path, mutation: str | None, limit: float, seed: int) -> Result:
    """Play runs until the checker finds something, or the limit is over."""
    setting = "power" if mutation in POWER else "persistent"
    begin = time.monotonic()
    progress = Progress()

    def done(now: Progress) -> bool:
        nonlocal progress
        progress = now
        return time.monotonic() - begin > limit

    finding, seconds = "", None
    with tempfile.TemporaryDirectory() as directory:
        try:
            play(
                setting,
                engine,
                Path(directory),
                done,
                seed=seed,
                mutation=mutation,
                settle_s=SETTLE_S,
            )
        except AssertionError as error:
            seconds = time.monotonic() - begin
            finding = " ".join(str(error).split())
    name = mutation or "none"
    return Result(name, setting, seconds, progress.rounds, progress.operations, finding)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mutations", nargs="*", choices=[*mutations(), []], metavar="MUTATION")
    parser.add_argument("--limit", type=float, default=600.0, metavar="SECONDS")
    parser.add_argument("--control", type=float, default=120.0, metavar="SECONDS")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "mutations")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    engine = build(arguments.build)
    about = mutations()
    control = hunt(engine, None, arguments.control, arguments.seed)
    if control.seconds is not None:
        print(f"found without a fault: {control.finding}", file=sys.stderr)
        return 1
    print(f"without a fault: nothing in {control.rounds} rounds, {control.operations} operations\n")
    print("| fault | found after | by |\n|---|---|---|")
    missed = 0
    for mutation in arguments.mutations or about:
        result = hunt(engine, mutation, arguments.limit, arguments.seed)
        after = "not found" if result.seconds is None else f"{result.seconds:.0f} s"
        missed += result.seconds is None
        print(
            f"| `{mutation}`: {about[mutation]} | {after} | {result.finding.split(';')[0][:160]} |",
            flush=True,
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
