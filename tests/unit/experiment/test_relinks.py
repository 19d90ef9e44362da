"""Which blocks get layouts of their own, of which programs, and who shares one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from perfrunner.build.artifact import Artifact
from perfrunner.experiment.preflight.builds import Relinks, relinks_wanted
from perfrunner.experiment.trial.placement import CredentialFiles, Deployed, Placement
from perfrunner.hosts import open_host
from perfrunner.spec.cluster import HostSpec
from perfrunner.spec.model import Spec
from tests.unit.experiment.test_plan import a_spec


def with_relink(how: str, **changes: object) -> Spec:
    return a_spec(variants=3, workloads=1).model_copy(update={"relink": how, **changes})


@pytest.mark.parametrize(
    ("how", "ids", "expected"),
    [
        ("auto", ["a", "a"], False),
        ("auto", ["a", "b"], True),
        ("shuffle", ["a", "a"], True),
        ("never", ["a", "b"], False),
    ],
)
def test_auto_is_for_variants_that_are_different_binaries(
    how: str, ids: list[str], expected: bool
) -> None:
    assert relinks_wanted(with_relink(how), ids) is expected


def drawn(
    how: str, ids: Mapping[str, str], tmp_path: Path
) -> list[dict[str, tuple[int | None, bytes]]]:
    """Of three blocks: each variant's layout seed, and what is in its program. The link itself is a stand-in."""
    base = tmp_path / "base" / "bin"
    base.mkdir(parents=True)
    (base / "kv_engine").write_bytes(b"as built")
    (base / "kvctl").write_bytes(b"kvctl")

    def link(artifact: Artifact, seed: int, programs: object, waiting: object) -> Artifact:
        path = tmp_path / "cache" / f"{artifact.build_id}-{seed}"
        (path / "bin").mkdir(parents=True, exist_ok=True)
        (path / "bin" / "kv_engine").write_bytes(f"{artifact.build_id} by {seed}".encode())
        return Artifact(path.name, path, {}, False, 0.3)

    with open_host(HostSpec(work_dir=str(tmp_path / "work")), "local", run_id="r") as host:
        run_dir = f"{host.work_dir}/runs/r"
        placement = Placement(
            host.transport, run_dir, CredentialFiles("x"), "127.0.0.1", "127.0.0.1", None
        )
        chosen = Relinks(
            spec=with_relink(how),
            seed=7,
            artifacts={
                name: Artifact(build, tmp_path / "base", {}, True, 0.0)
                for name, build in ids.items()
            },
            deployed={
                name: Deployed(build, {host.name: str(tmp_path / "base")}, {}, {})
                for name, build in ids.items()
            },
            placements=[placement],
            builder=SimpleNamespace(relink=link),
        )
        results = []
        for block, losses in ((1, 0), (2, 0), (2, 1)):
            if losses:  # of a host that has restarted, and whose work directory was in memory
                shutil.rmtree(f"{run_dir}/relinked", ignore_errors=True)
            variants = chosen.of_block(block, 1, losses)
            results.append(
                {
                    name: (
                        variant.layout_seed,
                        (Path(variant.paths[host.name]) / "bin" / "kv_engine").read_bytes(),
                    )
                    for name, variant in variants.items()
                }
            )
            assert all(
                (Path(variant.paths[host.name]) / "bin" / "kvctl").exists()
                for variant in variants.values()
            )
    assert (base / "kv_engine").read_bytes() == b"as built", "hard links must not write through"
    return results


def test_each_block_has_its_own_and_one_binary_has_one(tmp_path: Path) -> None:
    ids = {"v0": "glibc", "v1": "je", "v2": "je"}
    first, second, again = drawn("auto", ids, tmp_path)
    assert first["v1"] == first["v2"]
    assert first["v0"] != first["v1"]
    assert all(first[name] != second[name] for name in ids)
    assert second == again
    seed, program = first["v0"]
    assert program == f"glibc by {seed}".encode()


def test_shuffle_tells_two_names_of_one_binary_apart(tmp_path: Path) -> None:
    first, *_ = drawn("shuffle", {"v0": "one", "v1": "one"}, tmp_path)
    assert first["v0"] != first["v1"]


def test_never_is_as_it_was_built(tmp_path: Path) -> None:
    first, second, _ = drawn("never", {"v0": "a", "v1": "b"}, tmp_path)
    assert first == second == {"v0": (None, b"as built"), "v1": (None, b"as built")}
