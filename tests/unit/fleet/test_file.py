"""The fleet file: what it means, and every error with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfrunner.errors import SpecError
from perfrunner.fleet.file import NIGHTLY_PRIORITY, load_fleet

CLUSTER = """\
name: {name}
transport: ssh
hosts: {{kv: {{address: {kv}}}, load: {{address: {load}}}, maker: {{address: 10.0.0.99}}}}
engine_nodes: [kv]
load_clients: [load]
build_host: maker
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFRUNNER_SHARE_HOST", raising=False)
    for name, number in (("a", 1), ("b", 2)):
        text = CLUSTER.format(name=name, kv=f"10.0.{number}.1", load=f"10.0.{number}.2")
        (tmp_path / f"{name}.yaml").write_text(text)
    (tmp_path / "spec.yaml").write_text("")
    return tmp_path


def load(text: str):
    Path("fleet.yaml").write_text(text)
    return load_fleet(Path("fleet.yaml"))


def problems(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load(text)
    return caught.value.message.splitlines()


def test_paths_are_relative_to_the_file(directory: Path) -> None:
    fleet = load(
        "groups:\n"
        "  lab-a: {cluster: a.yaml}\n"
        "  lab-b: {cluster: b.yaml, out: /srv/b}\n"
        "  here: {cluster: local}\n"
        "nightly:\n"
        "  - {spec: spec.yaml, groups: [lab-a, lab-b], repeats: 20}\n"
    )
    assert fleet.database == str(directory / "fleet.sqlite")
    assert [(g.cluster, g.out) for g in fleet.groups.values()] == [
        (str(directory / "a.yaml"), directory / "results/lab-a"),
        (str(directory / "b.yaml"), Path("/srv/b")),
        ("local", directory / "results/here"),
    ]
    (entry,) = fleet.nightly
    assert (entry.spec, entry.repeats, entry.priority) == (
        str(directory / "spec.yaml"), 20, NIGHTLY_PRIORITY,
    )  # fmt: skip


def test_a_server_is_named_by_its_url() -> None:
    fleet = load("database: postgresql://perf@db/fleet\ngroups: {here: {cluster: local}}\n")
    assert fleet.database == "postgresql://perf@db/fleet"


def test_a_host_is_in_one_group(directory: Path) -> None:
    (directory / "c.yaml").write_text(CLUSTER.format(name="c", kv="10.0.3.1", load="10.0.1.2"))
    assert problems("groups:\n  x: {cluster: a.yaml}\n  y: {cluster: c.yaml}\n") == [
        "fleet.yaml:3: groups.y.cluster: expected each host in only one group, but 10.0.1.2:22 is also in x"
    ]


def test_groups_may_share_the_host_that_builds() -> None:
    assert set(load("groups:\n  x: {cluster: a.yaml}\n  y: {cluster: b.yaml}\n").groups) == {
        "x",
        "y",
    }


def test_this_machine_is_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "groups:\n  x: {cluster: local}\n  y: {cluster: local}\n"
    (output,) = problems(text)
    assert "but this machine is also in x" in output


def test_a_results_directory_belongs_to_one_group() -> None:
    (output,) = problems(
        "groups:\n  x: {cluster: a.yaml, out: r}\n  y: {cluster: b.yaml, out: ./r}\n"
    )
    assert output.startswith(
        "fleet.yaml:3: groups.y.out: expected a directory that no other group uses, got that of x"
    )


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    assert problems(
        "groups:\n"
        "  x: {cluster: a.yml}\n"
        "nightly:\n"
        "  - {spec: spec.yml, groups: [x, z]}\n"
        "  - {spec: spec.yaml, groups: [x]}\n"
        "  - {spec: spec.yaml, groups: [x]}\n"
    ) == [
        "fleet.yaml:2: groups.x.cluster: expected local or the path of a cluster file, got a.yml: no such file",
        "fleet.yaml:4: nightly[0].spec: expected the path of a spec, got spec.yml: no such file",
        "fleet.yaml:4: nightly[0].groups[1]: expected a group of this file: x; got z",
        "fleet.yaml:6: nightly[2]: expected each spec once per group, got spec.yaml twice for x",
    ]


def test_keys_and_zones_are_proposed() -> None:
    output = problems(
        "groups: {here: {clutser: local}}\ntimezone: Europe/Berln\nnightly: [{spec: s, groups: []}]\n"
    )
    assert any("unknown key (did you mean cluster?)" in line for line in output), output
    assert any(
        line.startswith("fleet.yaml:2: timezone:") and "did you mean Europe/Berlin" in line
        for line in output
    ), output
    assert any("nightly[0].groups: expected 1 or more entries" in line for line in output), output


def test_who_only_asks_for_jobs_need_not_read_the_cluster_files(directory: Path) -> None:
    text = (
        "store: postgresql://perf@db/results?raw=/srv/raw\n"
        "groups: {a: {cluster: broken.yaml}, b: {cluster: broken.yaml, out: there}}\n"
    )
    (directory / "broken.yaml").write_text("{")
    (directory / "fleet.yaml").write_text(text)
    fleet = load_fleet(directory / "fleet.yaml", hosts=False)
    assert fleet.store == "postgresql://perf@db/results?raw=/srv/raw"
    with pytest.raises(SpecError):
        load_fleet(directory / "fleet.yaml")


@pytest.mark.parametrize(
    ("old", "field"), [("a.yaml", "groups.lab-a.cluster"), ("spec.yaml", "nightly[0].spec")]
)
def test_a_path_that_no_file_can_have_is_an_error_of_its_field(old: str, field: str) -> None:
    text = "groups:\n  lab-a: {cluster: a.yaml}\nnightly:\n  - {spec: spec.yaml, groups: [lab-a]}\n"
    (problem,) = problems(text.replace(old, "x" * 300))
    assert f": {field}: " in problem
