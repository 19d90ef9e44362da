"""Include other files in a spec: `use: FILE` inside any mapping, and `cluster: FILE`.

Paths are relative to the file that names them. The mapping's own keys override those of the included
piece. Mappings are merged key by key, everything else is replaced. Pieces may use other pieces.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from perfrunner.paths import absolute_variable, absolute_word, is_file, real_path, with_home
from perfrunner.spec.document import Mark, Node, Path_, Problems, describe, load_document, size
from perfrunner.spec.yaml_core import MAX_DEPTH, MAX_NODES

USE = "use"
MAX_PIECES = 10_000  # nested pieces can make a few small files expand exponentially


@dataclass(frozen=True)
class Sources:
    """A reader of files with their pieces; it adds errors to `problems`."""

    problems: Problems
    _read: dict[Path, Node | None] = field(default_factory=dict)
    _sizes: dict[Path, int] = field(default_factory=dict)
    _included: Counter[Path] = field(default_factory=Counter)

    def load(self, path: Path) -> Node | None:
        """Load a file with its pieces merged in; None after adding a problem."""
        return self._load(path, ())

    def resolve(
        self, node: Node, directory: Path, stack: tuple[Path, ...], path: Path_ = ()
    ) -> Node:
        """Return the tree with every `use` replaced by the contents of the file it names."""
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
        alternatives: tuple[str, ...] = (),
    ) -> Node | None:
        """Return the mapping in the file that a scalar names; None after adding a problem.

        `alternatives` are the values that the key accepts besides a path, for the error message.
        """
        expected = f"expected {' or '.join([*alternatives, 'the path of a YAML file'])}"
        if not isinstance(name.value, str) or not name.value:
            self.problems.add(name.mark, "", f"{expected}, got {describe(name.value)}")
            return None
        path = real_path(directory / with_home(name.value))
        if not is_file(path):
            missing = _missing(path)
            near = _similar(path, alternatives)
            hint = f" (did you mean {near}?)" if near else ""
            self.problems.add(name.mark, "", f"{expected}, got {name.value}: {missing}{hint}")
            return None
        if path in stack:
            self.problems.add(name.mark, "", f"circular include: {name.value} includes itself")
            return None
        self._included[path] += 1
        if wrong := self._too_much(stack):
            self.problems.add(name.mark, "", f"expected at most {wrong}")
            return None
        return self._load(path, stack)

    def _too_much(self, stack: tuple[Path, ...]) -> str | None:
        """Return the limit that the pieces of a spec exceed, before the last of them is expanded."""
        if self._included.total() > MAX_PIECES:
            return f"{MAX_PIECES} included pieces in total (are they nested?)"
        if len(stack) > MAX_DEPTH:
            return f"{MAX_DEPTH} pieces inside pieces"
        values = sum(self._sizes.get(path, 0) * times for path, times in self._included.items())
        return f"{MAX_NODES} values in all included pieces" if values > MAX_NODES else None

    def _load(self, path: Path, stack: tuple[Path, ...]) -> Node | None:
        resolved = real_path(path)
        if resolved not in self._read:
            self._read[resolved] = load_document(path, shown(path), self.problems)
            if (read := self._read[resolved]) is not None:
                self._sizes[resolved] = size(read)
        node = self._read[resolved]
        return None if node is None else self.resolve(node, path.parent, (*stack, resolved))


def merged(below: Node, own: Node) -> Node:
    """Merge `own` over `below`. The mark of `own` stays: missing keys are reported where it was used."""
    if not (isinstance(below.value, dict) and isinstance(own.value, dict)):
        return own
    children = dict(below.value)
    for key, child in own.value.items():
        children[key] = merged(children[key], child) if key in children else child
    return Node(children, own.mark)


def shown(path: Path) -> str:
    """Return a path for display, relative to the current directory if it lies below it."""
    try:
        return str(real_path(path).relative_to(real_path(Path.cwd())))
    except (ValueError, OSError):
        return str(path)


def absolute_paths(cluster: Node) -> Node:
    """Make the paths of the hosts' SSH files absolute; they are relative to the file that names them."""
    hosts = cluster.get("hosts")
    if hosts is None or not isinstance(hosts.value, dict):
        return cluster
    for name, host in hosts.value.items():
        hosts = hosts.with_child(name, _with_absolute(host, ("key", "known_hosts", "ssh_config")))
    return cluster.with_child("hosts", hosts)


def absolute_sources(variants: Node) -> Node:
    """Make the paths of the variants' source directories, patches, repositories and commands absolute.

    A program without a slash is looked for in PATH; one of a repository is a path in its checkout.
    """
    if not isinstance(variants.value, dict):
        return variants
    for name, variant in variants.value.items():
        changed = variant
        if (server := variant.get("server")) is not None:
            changed = changed.with_child("server", _absolute_server(server))
            if (env := variant.get("env")) is not None and not _is_elsewhere(server):
                changed = changed.with_child("env", _absolute_words(env))
        allocator = variant.get("allocator")
        preload = None if allocator is None else allocator.get("preload")
        if allocator is not None and preload is not None and "/" in str(preload.value):
            changed = changed.with_child("allocator", _with_absolute(allocator, ("preload",)))
        if (source := variant.get("source")) is not None:
            changed = changed.with_child("source", _with_absolute(source, ("dir", "patch")))
        variants = variants.with_child(name, changed)
    return variants


def _is_elsewhere(server: Node) -> bool:
    """Tell whether the paths of a command are those of an image or a checkout."""
    return server.get("image") is not None or server.get("git") is not None


def _absolute_server(server: Node) -> Node:
    if server.get("image") is not None:
        return server
    command = server.get("command")
    if _is_elsewhere(server) or command is None or not isinstance(command.value, list):
        return _with_absolute(server, ("git",))
    program = command.value[0] if command.value else None
    command = _absolute_words(command)
    if program is not None and isinstance(program.value, str):
        at_once = "/" in program.value  # without a slash it is looked for in PATH
        path = _absolute(program.value, program.mark) if at_once else program.value
        command = command.with_child(0, Node(path, program.mark))
    return server.with_child("command", command)


def _absolute_words(words: Node) -> Node:
    """Make the paths among a command's words, or among the values of variables, absolute."""
    children = words.value.items() if isinstance(words.value, dict) else enumerate(words.value)
    for key, child in list(children):
        if isinstance(child.value, str):
            directory = _directory(child.mark)
            text = (
                absolute_variable(key, child.value, directory)
                if isinstance(key, str)
                else absolute_word(child.value, directory)
            )
            words = words.with_child(key, Node(text, child.mark))
    return words


def _with_absolute(node: Node, keys: tuple[str, ...]) -> Node:
    for key in keys:
        child = node.get(key)
        if child is not None and isinstance(child.value, str) and child.value:
            node = node.with_child(key, Node(_absolute(child.value, child.mark), child.mark))
    return node


def _absolute(text: str, mark: Mark) -> str:
    path = with_home(text)
    return str(path if path.is_absolute() else real_path(_directory(mark) / path))


def _directory(mark: Mark) -> Path:
    """Return where relative paths begin: at the file; those of an override (line 0) in the current directory."""
    return Path(mark.source).parent if mark.line else Path.cwd()


def _missing(path: Path) -> str:
    """Return why a path is not the one of a file."""
    try:
        return "a directory" if path.is_dir() else "not a file" if path.exists() else "no such file"
    except OSError as error:
        return (error.strerror or "unreadable").lower()


def _similar(path: Path, alternatives: tuple[str, ...]) -> str | None:
    from perfrunner.spec.suggest import nearest

    try:
        there = sorted(entry.name for entry in os.scandir(path.parent) if entry.is_file())
    except OSError:
        there = []
    return nearest(path.name, [*alternatives, *there])
