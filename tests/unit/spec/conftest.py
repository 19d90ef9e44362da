"""A small valid spec in a directory, and loading it with changes."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from perfrunner.errors import SpecError
from perfrunner.spec.loader import load_spec
from perfrunner.spec.model import Spec

CLUSTER = """\
name: here
transport: local
hosts: {here: {}}
engine_nodes: [here]
load_clients: [here]
"""
SPEC = """\
name: small
cluster: cluster.yaml
baseline: glibc
variants:
  glibc: {allocator: {name: system}}
  je: {allocator: {name: jemalloc-5.1.0, options: {metadata_thp: always, background_thread: true}}}
workloads:
  pf: {type: pillowfight, items: 10k, duration: 5s}
"""


class SpecDirectory:
    """Files in a temporary directory, which is the current one (so that errors show short paths)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.write("cluster.yaml", CLUSTER)
        self.write("spec.yaml", SPEC)

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def spec(self, text: str | None = None, *overrides: str, cluster: str | None = None) -> Spec:
        if text is not None:
            self.write("spec.yaml", text)
        other = None if cluster is None else self.directory / cluster
        return load_spec(self.directory / "spec.yaml", overrides, other)

    def changed(self, old: str, new: str) -> Spec:
        """The small spec with one piece of text replaced."""
        assert old in SPEC
        return self.spec(SPEC.replace(old, new))

    def errors(
        self, text: str | None = None, *overrides: str, cluster: str | None = None
    ) -> list[str]:
        with pytest.raises(SpecError) as caught:
            self.spec(text, *overrides, cluster=cluster)
        assert caught.value.exit_code == 2
        assert str(caught.value) == "\n".join(caught.value.problems)
        return list(caught.value.problems)

    def changed_errors(self, old: str, new: str) -> list[str]:
        assert old in SPEC
        return self.errors(SPEC.replace(old, new))

    def added_errors(self, more: str) -> list[str]:
        return self.errors(SPEC + textwrap.dedent(more))


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpecDirectory:
    monkeypatch.chdir(tmp_path)
    return SpecDirectory(tmp_path)
