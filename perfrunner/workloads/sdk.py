"""Run the `sdk` workload: processes that use the Couchbase Python SDK, and a check of the documents they wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from perfrunner.children import python_archive
from perfrunner.errors import TrialError
from perfrunner.measure.client import SCHEMA, cross_check, parse_reports
from perfrunner.measure.memory import memory_metrics
from perfrunner.measure.slices import steady_window
from perfrunner.spec.workloads import SdkSpec
from perfrunner.workloads.bench import ClientProgram, Group, Measured, ServerBench, Share
from perfrunner.workloads.metrics import (
    Driven,
    cpu_metrics,
    driven,
    latency_metrics,
    load_facts,
    read,
    window_facts,
)

MODULES = ("documents", "load", "process")
_MAIN = """\
import sys
from perfrunner.workloads.sdk_client.process import main
sys.exit(main())
"""


@cache
def sdk_program() -> ClientProgram:
    modules = [f"workloads/sdk_client/{name}.py" for name in MODULES]
    return ClientProgram("sdk", python_archive(_MAIN, modules))


CONTENTS_FACT = "contents"  # fact of a trial: number of verified documents after each event


def run(bench: Group, spec: SdkSpec) -> list[Measured]:
    (variant,) = bench.variants
    bench.phase("populate")
    program(variant, spec, "populate", populate_arguments, output="populate")

    bench.phase("persist")
    variant.wait_persisted()
    variant.reset_stats()
    before = read(variant, "before")

    bench.phase("access")
    sampling = variant.start_sampling("samples")
    load = access(variant, spec)
    samples = sampling.stop()
    now = read(variant, "now")

    bench.phase("settle")
    bench.settle(spec.settle)
    settled = variant.sample("settled")

    facts: dict[str, object] = {}
    verified = {"load": verify(bench, variant, spec, "load", variant.copies)}
    if spec.restart and variant.persistent:
        bench.phase("restart")
        variant.restart()
        verified["restart"] = verify(bench, variant, spec, "restart")
    if spec.failover:
        bench.phase("failover")
        variant.wait_persisted()  # also waits for the replicas, so that no document may be missing
        facts["failover"] = variant.fail_over()
        verified["failover"] = verify(bench, variant, spec, "failover")

    phase = driven(load.report)
    return [
        Measured(
            metrics={
                **cpu_metrics(load.ops, load.report, before.sample, now.sample),
                **load.metrics,
                **latency_metrics(phase),
                **memory_metrics(samples, now.sample, settled),
                "errors": float(phase.error_count),
                "verified_items": float(min(verified.values())),
            },
            report=load.report,
            check=cross_check(load.ops, before.counters, now.counters, spec.processes),
            facts={**load.facts, **facts, CONTENTS_FACT: verified},
        )
    ]


def access(variant: ServerBench, spec: SdkSpec) -> Driven:
    texts = program(variant, spec, "access", access_arguments, output="client", in_step=True)
    report = parse_reports(texts)
    phase = driven(report)
    facts = {"sdk": versions(texts), "errors": dict(phase.errors)}
    if spec.operations is not None:
        rate = {"ops_per_s": phase.ops / phase.seconds}
        return Driven(report, phase.ops, rate, {**facts, **load_facts(phase)})
    window = steady_window(phase.series, spec.ramp)
    return Driven(
        report=report,
        ops=phase.ops,
        metrics={"ops_per_s": window.mean, "ops_per_s_p90": window.p90},
        facts={**facts, **window_facts(window), **load_facts(phase, float(window.seconds))},
    )


def verify(bench: Group, variant: ServerBench, spec: SdkSpec, after: str, copies: int = 1) -> int:
    """Return the number of documents compared; raise TrialError if one, or a copy of it, is not as last written."""

    def arguments(spec: SdkSpec, variant: ServerBench, share: Share) -> list[str]:
        options = [f"--copies={copies}"] if copies > 1 else []
        return [*verify_arguments(spec, variant, share), *options]

    bench.phase(f"verify after {after}")
    texts = program(variant, spec, "verify", arguments, output=f"verify-{after}")
    return check_verified(texts, spec.items, f"after the {after}")


def versions(texts: Mapping[str, str]) -> Mapping[str, object]:
    """Return the versions of Python and the SDK that the first process reports, as a fact."""
    reported = json.loads(next(iter(texts.values()))).get("versions")
    return reported if isinstance(reported, dict) else {}


def program(
    variant: ServerBench,
    spec: SdkSpec,
    phase: str,
    arguments: Callable[[SdkSpec, ServerBench, Share], Sequence[str]],
    *,
    output: str,
    in_step: bool = False,
) -> Mapping[str, str]:
    """Run a phase of the client program in all its processes; return the outputs by file name."""
    return variant.load_program(
        sdk_program(),
        lambda share: [phase, *arguments(spec, variant, share)],
        output=output,
        processes=spec.processes,
        in_step=in_step,
    )


def populate_arguments(spec: SdkSpec, bench: ServerBench, share: Share) -> list[str]:
    """Return the flags for keys and contents. Contents depend only on the seed of the trial."""
    start, items = share.slice_of(spec.items)
    return [
        f"--start-at={start}",
        f"--num-items={items}",
        f"--min-size={spec.value_size[0]}",
        f"--max-size={spec.value_size[1]}",
        f"--random-seed={bench.seed}",
    ]


def verify_arguments(spec: SdkSpec, bench: ServerBench, share: Share) -> list[str]:
    return [
        *populate_arguments(spec, bench, share),
        f"--versions={bench.kept_for(share, 'versions')}",
    ]


def access_arguments(spec: SdkSpec, bench: ServerBench, share: Share) -> list[str]:
    arguments = [
        *verify_arguments(spec, bench, share),
        f"--set-pct={spec.set_share:g}",
        f"--duration={spec.duration:g}",
        f"--durability={spec.durability}",
    ]
    if spec.operations is not None:
        _, operations = share.slice_of(spec.operations)
        arguments.append(f"--num-ops={operations}")
    return arguments


@dataclass(frozen=True)
class Verified:
    """The result of a verification. `examples` describe the first of the `wrong` documents."""

    documents: int
    wrong: int
    examples: tuple[str, ...] = ()


def parse_verified(text: str, where: str) -> Verified:
    """Parse a report. Raises TrialError, which names `where`."""
    try:
        document = json.loads(text)
        result = document["verify"]
        if (document["tool"], document["schema"]) != ("sdk", SCHEMA):
            raise ValueError(f"tool {document['tool']!r}, schema {document['schema']!r}")
        return Verified(
            int(result["documents"]), int(result["wrong"]), tuple(map(str, result["examples"]))
        )
    except (ValueError, KeyError, TypeError) as error:
        raise TrialError(f"{where} is not a report of a verification: {error!r}") from None


def check_verified(
    reports: Mapping[str, str], items: int, when: str, wanted: str = "as last written"
) -> int:
    """Return the number of documents compared by all processes.

    `reports` are texts by file name. `when` describes the moment of the check for messages. Raises
    TrialError, with examples, if a document is not as `wanted`, or if not all `items` were compared.
    """
    results = [parse_verified(text, name) for name, text in reports.items()]
    documents, wrong = sum(r.documents for r in results), sum(r.wrong for r in results)
    if wrong:
        shown = [example for r in results for example in r.examples][:3]
        raise TrialError(
            f"{when}, {wrong} of {documents} documents are not {wanted}: {'; '.join(shown)}"
        )
    if documents != items:
        raise TrialError(f"{when}, {documents} of {items} documents were compared")
    return documents
