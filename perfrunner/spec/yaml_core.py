"""Read and write YAML by the core schema of YAML 1.2, on PyYAML's scanner and parser.

PyYAML resolves scalars by YAML 1.1, in which `010` is 8, `1:30` is 90 and `on` is true. The loader here resolves them
by the core schema (https://yaml.org/spec/1.2.2/#103-core-schema) and checks depth, size and text before anything is
expanded. docs/reference/yaml.md lists the decision for each construct.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, TypeAlias

import yaml

MAX_BYTES = 1 << 20  # of one file
MAX_DEPTH = 100  # of nested collections, through aliases too
MAX_NODES = 100_000  # after aliases and merge keys are expanded
MAX_DIGITS = 400  # of one number; no quantity is longer

_TAG = "tag:yaml.org,2002:"
NULL, BOOL, INT, FLOAT, STR = (_TAG + name for name in ("null", "bool", "int", "float", "str"))
MERGE_KEY = "<<"
_SEQ, _MAP = _TAG + "seq", _TAG + "map"

_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_PATTERNS = ((NULL, _NULL), (BOOL, _BOOL), (INT, _INT), (FLOAT, _FLOAT))
# Line breaks in YAML 1.1 but ordinary characters in 1.2: PyYAML would fold them away silently.
_OLD_BREAKS = "\x85\u2028\u2029"
_REFUSED = re.compile(f"[{_OLD_BREAKS}]|{yaml.reader.Reader.NON_PRINTABLE.pattern}")
_LINES = re.compile(r"\r\n|\r|\n")

Pairs: TypeAlias = dict[str, "tuple[yaml.ScalarNode, yaml.Node]"]


def core_tag(text: str) -> str:
    """Return the tag that the core schema gives to an untagged plain scalar."""
    for tag, pattern in _PATTERNS:
        if pattern.fullmatch(text):
            return tag
    return STR


class CoreLoader(yaml.SafeLoader):
    """A PyYAML loader that composes the single document of a text with the tags of the core schema."""

    def __init__(self, text: str) -> None:
        self._check_text(text)
        super().__init__(text)
        self._depth = 0
        self._count = 0

    def scan_to_next_token(self) -> None:
        """Skip what separates tokens: tabs as well, except where they would indent a block."""
        scanner: Any = super()
        scanner.scan_to_next_token()
        while self.peek() == "\t":
            length = 1
            while self.peek(length) in (" ", "\t"):
                length += 1
            if not self._tab_separates(length):
                return
            self.forward(length)
            scanner.scan_to_next_token()

    def _tab_separates(self, length: int) -> bool:
        """Tell whether the next `length` characters, which are tabs and blanks, may stand between tokens."""
        state: Any = self
        if state.flow_level or not state.allow_simple_key:
            return True
        return state.peek(length) in ("#", "\n", "\r", "\0")  # an empty line

    def resolve(self, kind: type[Any], value: Any, implicit: Any) -> str:
        """Return the tag of a node by the core schema."""
        if kind is yaml.ScalarNode:
            return core_tag(value) if implicit[0] else STR
        return _SEQ if kind is yaml.SequenceNode else _MAP

    def compose_document(self) -> yaml.Node | None:
        """Compose the document; refuse a %YAML directive of a version before 1.2."""
        start: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if start.version is not None and start.version < (1, 2):
            raise _error(
                "expected YAML 1.2, got a %YAML directive of an older version (remove it)",
                start.start_mark,
            )
        return super().compose_document()

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node within the limits of depth and size."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        self._count += 1
        if self._depth >= MAX_DEPTH:
            raise _error(f"more than {MAX_DEPTH} nested collections", event.start_mark)
        if self._count > MAX_NODES:
            raise _error(f"more than {MAX_NODES} values", event.start_mark)
        if getattr(event, "tag", None) == "!" and isinstance(event, yaml.ScalarEvent):
            event.tag = STR  # the non-specific tag: always a string
        self._depth += 1
        try:
            node = super().compose_node(parent, index)
        finally:
            self._depth -= 1
        kind = _SEQ if isinstance(node, yaml.SequenceNode) else _MAP
        if isinstance(node, yaml.CollectionNode) and node.tag != kind:
            raise _no_constructor(node)
        return node

    @staticmethod
    def _check_text(text: str) -> None:
        if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            raise yaml.YAMLError(f"more than {MAX_BYTES >> 20} MiB")
        for line, content in enumerate(_LINES.split(text)):
            if match := _REFUSED.search(content):
                name = f"U+{ord(match[0]):04X}"
                what = f"the invisible character {name}: remove it"
                if match[0] not in _OLD_BREAKS:
                    what = f"the character {name} is not allowed"
                raise _error(what, yaml.Mark("", 0, line, match.start(), None, 0))


class CoreDumper(yaml.SafeDumper):
    """A dumper whose YAML reads the same under 1.1 and 1.2: ambiguous strings are quoted, old line breaks escaped."""

    def represent_scalar(self, tag: str, value: Any, style: str | None = None) -> yaml.ScalarNode:
        """Return the node of a scalar, in double quotes if PyYAML would write a character that is refused raw."""
        if any(character in value for character in _OLD_BREAKS):
            style = '"'
        return super().represent_scalar(tag, value, style)

    def resolve(self, kind: type[Any], value: Any, implicit: Any) -> str:
        """Return the tag that makes PyYAML quote every string that either version reads otherwise."""
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        if kind is yaml.ScalarNode and implicit[0] and tag == STR:
            return core_tag(value)
        return tag


def scalar_value(node: yaml.ScalarNode) -> Any:
    """Return a scalar as None, bool, int, float or str. Raises a MarkedYAMLError."""
    text: str = node.value
    if node.tag == STR:
        return _text(text, node)
    pattern = dict(_PATTERNS).get(node.tag)
    if pattern is None:
        raise _no_constructor(node)
    if not pattern.fullmatch(text):
        raise _error(
            f"expected {'an' if node.tag == INT else 'a'} {node.tag[len(_TAG) :]}, got {text!r}",
            node.start_mark,
        )
    if node.tag == NULL:
        return None
    if node.tag == BOOL:
        return text.lower() == "true"
    if len(text) > MAX_DIGITS:
        raise _error(f"a number of more than {MAX_DIGITS} digits", node.start_mark)
    return _integer(text) if node.tag == INT else _float(text)


def _integer(text: str) -> int:
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text if base == 10 else text[2:], base)


def _float(text: str) -> float:
    is_word = text.lower().lstrip("+-") in (".inf", ".nan")
    return float(text.lower().replace(".", "") if is_word else text)


def _text(text: str, node: yaml.ScalarNode) -> str:
    """Join escaped surrogate pairs as in JSON; refuse lone surrogates and control characters."""
    try:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise _error("half of a surrogate pair (\\ud800 to \\udfff)", node.start_mark) from None
    for character in text:
        if unicodedata.category(character) == "Cc" and character not in "\t\n\r":
            raise _error(f"the control character U+{ord(character):04X} in a text", node.start_mark)
    return text


class Expansion:
    """The expansion of one document: its resolved merge keys and its size after aliases.

    Every node is computed once, however many aliases refer to it. Checking the limits is therefore
    linear in the size of the file as written.
    """

    def __init__(self) -> None:
        self._pairs: dict[int, Pairs] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
        self._open: set[int] = set()
        self._copied = 0

    def check(self, root: yaml.Node) -> None:
        """Raise a MarkedYAMLError if aliases or merge keys make the document too large or recursive."""
        self._measure(root, 0)

    def pairs(self, node: yaml.MappingNode) -> Pairs:
        """Return key and value nodes by key; the mapping's own keys override those merged by `<<`."""
        known = self._pairs.get(id(node))
        if known is not None:
            return known
        self._enter(node)
        merged: Pairs = {}
        own: Pairs = {}
        for key_node, value_node in node.value:
            if is_merge_key(key_node):
                for base in reversed(self.bases(value_node)):
                    self._count(base, len(pairs := self.pairs(base)))
                    merged.update(pairs)
            elif isinstance(key_node, yaml.ScalarNode):
                key = scalar_value(key_node)
                if isinstance(key, str):
                    own[key] = (key_node, value_node)
        self._open.discard(id(node))
        self._pairs[id(node)] = {**merged, **own}
        return self._pairs[id(node)]

    def bases(self, value: yaml.Node) -> list[yaml.MappingNode]:
        """Return the mappings that the value of a `<<` refers to."""
        bases = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for base in bases:
            if not isinstance(base, yaml.MappingNode):
                raise _error(
                    "expected a mapping or a list of mappings for merging", value.start_mark
                )
        return list(bases)

    def _measure(self, node: yaml.Node, depth: int) -> tuple[int, int]:
        """Return the number of values that a node expands to, and its height."""
        known = self._sizes.get(id(node))
        if known is not None:
            return known
        if depth > MAX_DEPTH:
            raise _error(f"more than {MAX_DEPTH} nested collections", node.start_mark)
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            children = [value for _, value in self.pairs(node).values()]
        elif isinstance(node, yaml.SequenceNode):
            children = node.value
        self._enter(node)
        size, height = 1, 0
        for child in children:
            below, levels = self._measure(child, depth + 1)
            size, height = size + below, max(height, levels + 1)
            if size > MAX_NODES:
                raise _error(
                    f"more than {MAX_NODES} values (anchors inside anchors?)", node.start_mark
                )
            if depth + height > MAX_DEPTH:
                raise _error(f"more than {MAX_DEPTH} nested collections", node.start_mark)
        self._open.discard(id(node))
        self._sizes[id(node)] = size, height
        return size, height

    def _enter(self, node: yaml.Node) -> None:
        if id(node) in self._open:
            raise _error("an anchor that contains itself", node.start_mark)
        if len(self._open) > 2 * MAX_DEPTH:  # merge keys that name mappings with merge keys
            raise _error(f"more than {MAX_DEPTH} nested collections", node.start_mark)
        self._open.add(id(node))

    def _count(self, node: yaml.Node, keys: int) -> None:
        self._copied += keys + 1
        if self._copied > MAX_NODES:
            raise _error(f"more than {MAX_NODES} values (merge keys?)", node.start_mark)


def is_merge_key(node: yaml.Node) -> bool:
    """Tell whether a key is the plain scalar `<<`. YAML 1.2 dropped merge keys; specs support them."""
    return (
        isinstance(node, yaml.ScalarNode)
        and node.value == MERGE_KEY
        and node.tag in (STR, _TAG + "merge")
        and not node.style
    )


def _no_constructor(node: yaml.Node) -> yaml.MarkedYAMLError:
    return _error(f"could not determine a constructor for the tag {node.tag!r}", node.start_mark)


def _error(text: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, text, mark)
