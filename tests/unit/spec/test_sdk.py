"""Workloads of type sdk: what cannot be kept is refused with its line."""

from __future__ import annotations

import pytest

from perfrunner.experiment.plan import Grouping, groupings
from perfrunner.experiment.trial.placement import client_python
from perfrunner.spec.workloads import SdkSpec

PF = "{type: pillowfight, items: 10k, duration: 5s}"
TWO = """\
name: two
transport: ssh
hosts: {a: {address: 192.0.2.1}, b: {address: 192.0.2.2}}
engine_nodes: [a, b]
load_clients: [a]
replicas: %d
"""


def workload(keys: str) -> str:
    return f"{{type: sdk, items: 10k{keys}}}"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (", schedule: interleaved", "pf.schedule: expected sequential: the Couchbase SDK cannot run a load in slices"),
        (", threads: 4", "pf.threads: expected 1: set the number of outstanding operations with `processes`"),
        (", value_size: 32", "pf.value_size: expected at least 64 bytes: a document holds its key and version"),
        (", durability: persist_to_majority", "pf.durability: expected none or majority: the engine refuses levels that wait for disk"),
        (", durability: majorty", "pf.durability: expected a durability level: none, majority; got majorty (did you mean majority?)"),
        (", ramp: 5s, duration: 5s", "pf.duration: expected at least one second more than ramp (5 s)"),
        (", processes: 0", "pf.processes: expected at least 1"),
        (", batch: 3", "pf.batch: unknown key"),
    ],
)  # fmt: skip
def test_what_is_refused(specs, keys, message):
    (output,) = specs.changed_errors(PF, workload(keys))
    assert output.startswith("spec.yaml:8: workloads.")
    assert message in output


def test_each_process_has_keys_of_its_own(specs):
    (output,) = specs.changed_errors(PF, "{type: sdk, items: 3, processes: 4}")
    assert "pf.processes: expected at most 3 (one process per item)" in output


def test_a_promise_that_the_cluster_cannot_keep_is_refused(specs):
    specs.write("two.yaml", TWO % 1)
    text = (specs.directory / "spec.yaml").read_text()
    durable = text.replace(PF, workload(", durability: majority"))
    (output,) = specs.errors(durable, cluster="two.yaml")
    assert "pf.durability: expected none on a cluster with replicas" in output
    assert specs.spec(durable).workloads["pf"].durability == "majority"
    specs.write("two.yaml", TWO % 0)
    assert specs.spec(durable, cluster="two.yaml").cluster.name == "two"
    (output,) = specs.errors(text.replace(PF, workload(", restart: true")), cluster="two.yaml")
    assert (
        "pf.restart: expected false: a restart needs a cluster with a single engine node" in output
    )


def test_a_restart_needs_a_bucket_that_outlives_it(specs):
    text = (specs.directory / "spec.yaml").read_text().replace(PF, workload(", restart: true"))
    (output,) = specs.errors(text + "buckets: [ephemeral]\n")
    assert "pf.restart: expected false: ephemeral buckets lose their data" in output
    assert specs.spec(text + "buckets: [ephemeral, persistent]\n").workloads["pf"].restart


def test_its_variants_run_one_after_the_other_and_the_plan_says_why(specs):
    spec = specs.changed(PF, workload(""))
    assert isinstance(spec.workloads["pf"], SdkSpec)
    why = "the Couchbase SDK cannot run a load in slices"
    assert groupings(spec, None) == {"pf": Grouping("sequential", 1, why)}


def test_only_it_gives_what_it_alone_knows(specs):
    more = "primary: [errors]"
    (output,) = specs.added_errors(more)
    assert "measures; got errors" in output
    text = (specs.directory / "spec.yaml").read_text().replace(PF, workload(""))
    assert specs.spec(text).primary == ("errors",)
    (output,) = specs.errors(text.replace(more, "primary: [slow_slices]"))
    assert "measures; got slow_slices" in output


def test_which_python_runs_it(specs):
    import sys

    specs.write("two.yaml", TWO % 0)
    assert client_python(specs.spec(), "here") == sys.executable
    assert client_python(specs.spec(None, cluster="two.yaml"), "a") == "python3"
    named = specs.spec(None, "client.python=/opt/sdk/bin/python", cluster="two.yaml")
    assert client_python(named, "a") == "/opt/sdk/bin/python"
    (output,) = specs.errors(None, "client.python=bin/python; id")
    assert "client.python: expected the absolute path of a Python interpreter" in output
