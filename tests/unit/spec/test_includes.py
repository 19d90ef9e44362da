"""Pieces in other files."""

from __future__ import annotations

import pytest

from perfrunner.spec.includes import Sources
from tests.unit.spec.conftest import SPEC

PIECE = "type: pillowfight\nitems: 5k\nset_share: 50\n"
USING = "{type: pillowfight, items: 10k, duration: 5s}"


def test_a_piece_is_merged_below_the_own_keys(specs):
    specs.write("pieces/pf.yaml", PIECE)
    spec = specs.changed(USING, "{use: pieces/pf.yaml, set_share: 80}")
    assert (spec.workloads["pf"].items, spec.workloads["pf"].set_share) == (5000, 80)


def test_mappings_of_a_piece_are_merged_key_by_key(specs):
    specs.write(
        "je.yaml", "allocator: {name: jemalloc-5.1.0, options: {narenas: 4, dss: primary}}\n"
    )
    spec = specs.changed(
        "  glibc: {allocator: {name: system}}",
        "  glibc: {use: je.yaml, allocator: {options: {narenas: 1}}}",
    )
    assert spec.variants["glibc"].allocator.options == {"narenas": "1", "dss": "primary"}


def test_errors_in_a_piece_name_its_own_file_and_line(specs):
    specs.write("pf.yaml", PIECE.replace("50", "500"))
    assert specs.changed_errors(USING, "{use: pf.yaml}") == [
        "pf.yaml:3: set_share: expected a percentage from 0 to 100, got 500"
    ]


def test_an_error_in_a_shared_piece_is_reported_once(specs):
    specs.write("pf.yaml", PIECE.replace("5k", "x"))
    problems = specs.changed_errors(f"pf: {USING}", "a: {use: pf.yaml}\n  b: {use: pf.yaml}")
    assert len(problems) == 1
    assert problems[0].startswith("pf.yaml:2: items: ")


def test_pieces_are_found_relative_to_the_file_that_names_them(specs):
    specs.write("a/one.yaml", "use: b/two.yaml\nset_share: 10\n")
    specs.write("a/b/two.yaml", PIECE)
    spec = specs.changed(USING, "{use: a/one.yaml}")
    assert (spec.workloads["pf"].items, spec.workloads["pf"].set_share) == (5000, 10)


def test_a_missing_piece_is_the_only_error(specs):
    specs.write("pf.yaml", PIECE)
    assert specs.changed_errors(USING, "{use: pff.yaml}") == [
        "spec.yaml:8: workloads.pf.use: expected the path of a YAML file, got pff.yaml: no such file "
        "(did you mean pf.yaml?)"
    ]


def test_pieces_that_use_each_other_are_an_error(specs):
    specs.write("a.yaml", "use: b.yaml\n")
    specs.write("b.yaml", "use: a.yaml\n")
    assert "circular include" in specs.changed_errors(USING, "{use: a.yaml}")[0]


def test_the_cluster_may_be_written_inline_or_given_on_the_command_line(specs):
    inline = "{name: other, transport: local, hosts: {h: {}}, engine_nodes: [h], load_clients: [h]}"
    assert specs.changed("cluster: cluster.yaml", f"cluster: {inline}").cluster.name == "other"
    specs.write("remote.yaml", "name: r\ntransport: ssh\nhosts: {k: {address: 10.0.0.1, key: id}}\n"
                "engine_nodes: [k]\nload_clients: [k]\n")  # fmt: skip
    cluster = specs.spec(cluster="remote.yaml").cluster
    assert cluster.transport == "ssh"
    assert cluster.hosts["k"].key == str(specs.directory / "id")


@pytest.mark.parametrize("named", ["cluster.yaml", "local"])
def test_a_missing_file_of_the_command_line_is_the_only_error(specs, named):
    specs.write("spec.yaml", SPEC.replace("cluster: cluster.yaml", f"cluster: {named}"))
    (problem,) = specs.errors(cluster="nowhere.yaml")
    assert problem.startswith(f"--cluster {specs.directory / 'nowhere.yaml'}: cluster: expected")


def test_errors_in_the_cluster_file_name_that_file(specs):
    specs.write(
        "cluster.yaml",
        "name: c\ntransport: shh\nhosts: {h: {prt: 5, work_dir: /}}\nengine_nodes: [x]\nload_clients: []\n",
    )
    problems = specs.errors()
    assert problems[0].startswith("cluster.yaml:2: transport: expected 'local' or 'ssh'")
    assert (
        "cluster.yaml:3: hosts.h.prt: unknown key (did you mean port?)" in problems[1] + problems[2]
    )
    assert any("hosts.h.work_dir: expected an absolute directory" in p for p in problems)
    assert any(
        p.startswith("cluster.yaml:5: load_clients: expected at least one host") for p in problems
    )


def test_an_unknown_engine_node_gets_the_nearest_name(specs):
    specs.write(
        "cluster.yaml",
        "name: c\ntransport: ssh\nhosts: {kv1: {}}\nengine_nodes: [kv2]\nload_clients: [kv1]\n",
    )
    assert specs.errors() == [
        "cluster.yaml:4: engine_nodes: expected a host of this cluster: kv1; got kv2 (did you mean kv1?)"
    ]


def test_the_build_host_is_one_of_the_file(specs):
    text = "name: c\ntransport: ssh\nhosts: {kv1: {}, maker: {}}\nengine_nodes: [kv1]\nload_clients: [kv1]\n"
    specs.write("cluster.yaml", f"{text}build_host: maker\n")
    assert specs.spec().cluster.build_host == "maker"
    specs.write("cluster.yaml", f"{text}build_host: makr\n")
    assert specs.errors() == [
        "cluster.yaml:6: build_host: expected a host of this cluster: kv1, maker; got makr (did you mean maker?)"
    ]


@pytest.mark.parametrize(
    "path", ["/", "/tmp", "relative", "/a/../b", "/var/..", "~", "/a b/c", "/var/tmp/"]
)
def test_work_directories_that_are_too_dangerous(specs, path):
    specs.write(
        "cluster.yaml",
        f"name: c\ntransport: local\nhosts: {{h: {{work_dir: '{path}'}}}}\nengine_nodes: [h]\nload_clients: [h]\n",
    )
    assert "hosts.h.work_dir" in specs.errors()[0]


@pytest.mark.parametrize("key", ["use", "cluster"])
def test_a_path_that_the_system_refuses_is_an_error_of_its_line(specs, key):
    text = "".join(line for line in SPEC.splitlines(True) if not line.startswith(key))
    problems = specs.errors(f"{text}{key}: {'a' * 5000}\n")
    line = text.count("\n") + 1
    assert any(p.startswith(f"spec.yaml:{line}: {key}: ") for p in problems)
    assert any(p.endswith("file name too long") for p in problems)


def test_pieces_are_limited_before_they_are_expanded(specs, monkeypatch):
    copied = 0
    resolve = Sources.resolve

    def counted(self, *arguments):
        nonlocal copied
        copied += 1
        return resolve(self, *arguments)

    monkeypatch.setattr(Sources, "resolve", counted)
    specs.write("wide.yaml", "x: [" + ", ".join(["1"] * 50_000) + "]\n")
    uses = ", ".join(["{use: wide.yaml}"] * 100)
    problems = specs.added_errors(f"y: [{uses}]\n")
    assert any("expected at most 100000 values in all included pieces" in p for p in problems)
    assert copied < 200_000


def test_a_long_chain_of_pieces_is_an_error_at_its_use(specs):
    for i in range(500):
        specs.write(f"p{i}.yaml", f"use: p{i + 1}.yaml\n")
    specs.write("p500.yaml", "blocks: 3\n")
    assert specs.added_errors("use: p0.yaml\n") == [
        "p99.yaml:1: use: expected at most 100 pieces inside pieces"
    ]
