"""A repository with an engine in engine_src/ and a small history."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from perfrunner.sources.resolve import Sources
from perfrunner.spec.model import Spec

ENGINE = {
    "CMakeLists.txt": "project(kv)\n",
    "options/Options.cmake": "\n",
    "main.cc": "one\n",
    "INTERFACE": "3\n",
    "README.md": "a map\n",
    "allocators/jemalloc-5.1.0/Cargo.toml": "[package]\n",
    "allocators/jemalloc-5.1.0/Cargo.lock": "version = 3\n",
}


@dataclass
class Repo:
    top: Path

    @property
    def engine(self) -> Path:
        return self.top / "engine_src"

    def git(self, *words: str, at: Path | None = None) -> str:
        env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
        return subprocess.run(
            ["git", "-C", str(at or self.top), *who, *words],
            env=env, check=True, capture_output=True, encoding="utf-8", errors="replace",
        ).stdout  # fmt: skip

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.engine / name.replace("_cc", ".cc")).write_text(text)

    def commit(self, title: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", title)
        return self.git("rev-parse", "HEAD").strip()


def make_repo(top: Path) -> Repo:
    """main: `first`, then `second`; the tag v1 is the first, the branch feature/x has a third."""
    made = Repo(top)
    for name, text in ENGINE.items():
        path = made.engine / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (made.top / "notes.txt").write_text("beside the engine\n")
    made.git("init", "-q", "-b", "main")
    made.commit("first")
    made.git("tag", "v1")
    made.write(main_cc="two\n")
    made.commit("second")
    made.git("checkout", "-q", "-b", "feature/x")
    made.write(main_cc="two\nthree\n")
    made.commit("third")
    made.git("checkout", "-q", "main")
    return made


def copied(repo: Repo, top: Path) -> Repo:
    """Copy a repository: much cheaper than making its commits again."""
    shutil.copytree(repo.top, top, symlinks=True)
    made = Repo(top)
    made.git("update-index", "-q", "--refresh")  # the index knows files by inode and time
    return made


def a_spec(**sources: dict[str, str] | None) -> Spec:
    """A variant for each source; the first is the baseline."""
    host = {"hosts": {"h": {}}, "engine_nodes": ["h"], "load_clients": ["h"]}
    return Spec.model_validate(
        {
            "name": "s",
            "cluster": {"name": "c", "transport": "local", **host},
            "baseline": next(iter(sources)),
            "variants": {
                name: {
                    "name": name,
                    "allocator": {"name": "system"},
                    **({} if source is None else {"source": source}),
                }
                for name, source in sources.items()
            },
            "workloads": {"pf": {"type": "pillowfight", "items": 100, "duration": 3.0}},
        }
    )


def text(sources: Sources, variant: str, file: str = "main.cc") -> str:
    return (sources.path(variant) / file).read_text()


def add_submodule(repo: Repo, source: Path) -> None:
    """As engine_src/third, from a new repository at `source`; committed."""
    inner = Repo(source)
    inner.top.mkdir()
    inner.git("init", "-q", "-b", "main")
    (inner.top / "inner.cc").write_text("inner\n")
    inner.commit("inner")
    repo.git("submodule", "--quiet", "add", str(inner.top), "engine_src/third")
    repo.commit("with a submodule")
