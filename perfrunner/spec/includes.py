"""Reused pieces: `use: FILE` inside any mapping, and `cluster: FILE`.

Paths are relative to the file that names them. A piece's keys are merged below the mapping's own keys, which win;
mappings are merged key by key, everything else is replaced. Pieces may use other pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perfrunner.spec.document import Mark, Node, Path_, describe, load_document
from perfrunner.spec.problems import Problems

USE = "use"


@dataclass(frozen=True)
class Sources:
    """Reads files with their pieces; what is wrong goes into `problems`."""

    problems: Problems

    def load(self, path: Path) -> Node | None:
        """A file with its own pieces merged in."""
        return self._load(path, ())

    def resolve(
        self, node: Node, directory: Path, stack: tuple[Path, ...], path: Path_ = ()
    ) -> Node:
        """The tree with every `use` below it replaced by what it names."""
        if isinstance(node.value, list):
            return Node(
                [self.resolve(c, directory, stack, (*path, i)) for i, c in enumerate(node.value)],
                node.mark,
            )
        if not isinstance(node.value, dict):
            return node
        children = {
            key: self.resolve(child, directory, stack, (*path, key))
            for key, child in node.value.items()
            if key != USE
        }
        own = Node(children, node.mark)
        use = node.value.get(USE)
        if use is None:
            return own
        piece = self.include(use, directory, stack)
        if piece is None:
            self.problems.incomplete(own.mark)
            return own
        return merged(piece, own)

    def include(
        self,
        name: Node,
        directory: Path,
        stack: tuple[Path, ...] = (),
        words: tuple[str, ...] = (),
    ) -> Node | None:
        """The mapping in the file that a scalar names; None after a problem was noted.

        `words`: what could have stood there instead, for the error.
        """
        expected = f"expected {' or '.join([*words, 'the path of a YAML file'])}"
        if not isinstance(name.value, str) or not name.value:
            self.problems.add(name.mark, "", f"{expected}, got {describe(name.value)}")
            return None
        path = (directory / Path(name.value).expanduser()).resolve()
        if not path.is_file():
            missing = "a directory" if path.is_dir() else "no such file"
            near = _similar(path, words)
            hint = f" (did you mean {near}?)" if near else ""
            self.problems.add(name.mark, "", f"{expected}, got {name.value}: {missing}{hint}")
            return None
        if path in stack:
            self.problems.add(
                name.mark, "", f"expected no circle of pieces, got {name.value} inside itself"
            )
            return None
        return self._load(path, stack)

    def _load(self, path: Path, stack: tuple[Path, ...]) -> Node | None:
        node = load_document(path, shown(path), self.problems)
        return None if node is None else self.resolve(node, path.parent, (*stack, path.resolve()))


def merged(below: Node, own: Node) -> Node:
    """`own` over `below`. The mark is `own`'s, so that a missing key is reported where the piece is used."""
    if not (isinstance(below.value, dict) and isinstance(own.value, dict)):
        return own
    children = dict(below.value)
    for key, child in own.value.items():
        children[key] = merged(children[key], child) if key in children else child
    return Node(children, own.mark)


def shown(path: Path) -> str:
    """A path as people want to read it: relative to the current directory where it lies below it."""
    try:
        return str(path.resolve().relative_to(Path.cwd().resolve()))
    except (ValueError, OSError):
        return str(path)


def absolute_paths(cluster: Node) -> Node:
    """Host keys' files are named relative to the file they are written in; make them absolute."""
    hosts = cluster.get("hosts")
    if hosts is None or not isinstance(hosts.value, dict):
        return cluster
    for name, host in hosts.value.items():
        hosts = hosts.with_child(name, _with_absolute(host, ("key", "known_hosts", "ssh_config")))
    return cluster.with_child("hosts", hosts)


def absolute_sources(variants: Node) -> Node:
    """The same for the directories and patches that variants are built from."""
    if not isinstance(variants.value, dict):
        return variants
    for name, variant in variants.value.items():
        if (source := variant.get("source")) is not None:
            changed = variant.with_child("source", _with_absolute(source, ("dir", "patch")))
            variants = variants.with_child(name, changed)
    return variants


def _with_absolute(node: Node, keys: tuple[str, ...]) -> Node:
    for key in keys:
        child = node.get(key)
        if child is not None and isinstance(child.value, str) and child.value:
            node = node.with_child(key, Node(_absolute(child.value, child.mark), child.mark))
    return node


def _absolute(text: str, mark: Mark) -> str:
    path = Path(text).expanduser()
    directory = Path(mark.source).parent if mark.line else Path.cwd()  # an override's line is 0
    return str(path if path.is_absolute() else (directory / path).resolve())


def _similar(path: Path, words: tuple[str, ...]) -> str | None:
    from perfrunner.spec.suggest import nearest

    there = path.parent.iterdir() if path.parent.is_dir() else ()
    return nearest(path.name, [*words, *sorted(p.name for p in there if p.is_file())])
