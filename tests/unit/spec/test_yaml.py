"""Scalars by the core schema of YAML 1.2, limits that hold before anything is expanded, and source text in `env`."""

from __future__ import annotations

import json
import os
import re
from decimal import Decimal
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perfrunner.errors import SpecError
from perfrunner.spec import yaml_core as core
from perfrunner.spec.loader import load_spec
from perfrunner.spec.pair import spec_document
from tests.unit.spec.conftest import CLUSTER, SPEC

PF = "workloads.pf"


@pytest.mark.parametrize(
    ("override", "read", "value"),
    [
        ("blocks=010", lambda s: s.blocks, 10),
        ("blocks=0o10", lambda s: s.blocks, 8),
        ("blocks=0x10", lambda s: s.blocks, 16),
        ("blocks=+7", lambda s: s.blocks, 7),
        (f"{PF}.items=0100000", lambda s: s.workloads["pf"].items, 100_000),
        (f"{PF}.items=1e3", lambda s: s.workloads["pf"].items, 1000),
        (f"{PF}.items=1.001k", lambda s: s.workloads["pf"].items, 1001),
        (f"{PF}.items=9007199254740993", lambda s: s.workloads["pf"].items, 2**53 + 1),
        ("cluster.hosts.here.port=0022", lambda s: s.cluster.hosts["here"].port, 22),
        ("description=off", lambda s: s.description, "off"),
        ("description=2001-12-14", lambda s: s.description, "2001-12-14"),
        ("description=1_000", lambda s: s.description, "1_000"),
        ("description=0b11", lambda s: s.description, "0b11"),
        ("description=190:20:30", lambda s: s.description, "190:20:30"),
        ("description=! 12", lambda s: s.description, "12"),
        ("description=!!str 012", lambda s: s.description, "012"),
        ("description==", lambda s: s.description, "="),
        ('description="\\ud83d\\ude00"', lambda s: s.description, "\U0001f600"),
        ("sampling_check=FALSE", lambda s: s.sampling_check, False),
        ("seed=~", lambda s: s.seed, None),
        ("seed=", lambda s: s.seed, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["--set", "file"])
def test_a_scalar_is_what_the_core_schema_says(specs, override, read, value, where):
    if where == "--set":
        assert read(specs.spec(None, override)) == value
        return
    path, _, text = override.partition("=")
    document: object = f"@{text}"
    for key in reversed(path.split(".")):
        document = {key: document}
    specs.write("profile.yaml", re.sub(r"'@(.*)'", lambda m: m[1].replace("''", "'"), yaml.dump(
        {"profiles": {"p": document}}, width=1000, default_style=None)).replace('"@', '"'))  # fmt: skip
    spec_text = "use: profile.yaml\n" + SPEC
    specs.write("spec.yaml", spec_text)
    assert read(load_spec(specs.directory / "spec.yaml", profile="p")) == value


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (f"{PF}.duration=1:30", "expected a duration such as 5s, 1.5m or 2h, got '1:30'"),
        ("sampling_check=yes", "expected true or false, got 'yes'"),
        ("sampling_check=on", "expected true or false, got 'on'"),
        (f"{PF}.items=1_000", "got '1_000'"),
        ("blocks=0b11", "got '0b11'"),
        ("blocks=!!int 0b11", "expected an int, got '0b11'"),
        ("sampling_check=!!bool yes", "expected a bool, got 'yes'"),
        ("description=!!binary aGk=", "could not determine a constructor for the tag"),
        ("description=!!timestamp 2001-12-14", "could not determine a constructor for the tag"),
        ("description=!mine x", "could not determine a constructor for the tag '!mine'"),
        ("variants.je.env=!!set {A}", "could not determine a constructor for the tag"),
        ("variants.je.env=!mine {A: b}", "could not determine a constructor for the tag '!mine'"),
        ("variants.je.env=!!seq {A: b}", "could not determine a constructor for the tag"),
        ("variants.je.env={<<: !mine {A: b}}", "could not determine a constructor for the tag"),
        ("buckets=!!python/tuple [ephemeral]", "could not determine a constructor for the tag"),
        ("buckets=!!str [ephemeral]", "could not determine a constructor for the tag"),
        (f"{PF}.items={'9' * 390}", "expected a whole number such as"),
        (f"{PF}.items={'9' * 5000}", "a number of more than 400 digits"),
        (f"{PF}.items=.inf", "expected a whole number such as"),
        (f"{PF}.items=1e400", "expected a whole number such as"),
        (f"{PF}.duration={'9' * 390}", "expected a duration such as"),
        ("margins.fragmentation_rss=.inf", "expected a positive number"),
        ("margins.fragmentation_rss=.nan", "expected a positive number"),
        ('description="\\ud800"', "half of a surrogate pair"),
        ('description="a\\0b"', "the control character U+0000"),
        ('description="a\\eb"', "the control character U+001B"),
        ("description=a\u2028b", "the invisible character U+2028"),
        ("variants.je.env.A=", "variants.je.env.A: expected a string, got null"),
        ("variants.je.env={<<: {A: 1, A: 2}}", "variants.je.env.A: duplicate key"),
        ("variants.je.env={<<: [{B: 1}, {<<: {1: 2}}]}", "expected a string as key, got 1"),
        (f"{PF}.items=9007199254740993.0", "expected a whole number such as"),
        (f"{PF}.items=1e23", "expected a whole number such as"),
        ("blocks={a: 1, a: 2}", "duplicate key"),
    ],
)  # fmt: skip
def test_what_a_reader_could_take_for_something_else_is_refused(specs, override, message):
    assert message in "\n".join(specs.errors(None, override))


def test_texts_for_other_programs_are_as_written(specs):
    environment = (
        "{MODE: on, COUNTRY: no, VER: 1.10, BIG: 1e3, HEX: 0x1F, OCT: 010, T: True, N: -0}"
    )
    text = SPEC.replace(
        "allocator: {name: system}}", f"allocator: {{name: system}}, env: {environment}}}"
    )
    expected = {"MODE": "on", "COUNTRY": "no", "VER": "1.10", "BIG": "1e3", "HEX": "0x1F", "OCT": "010", "T": "True", "N": "-0"}  # fmt: skip
    assert specs.spec(text).variants["glibc"].env == expected
    overridden = specs.spec(text, "variants.glibc.env.VER=2.50", "variants.glibc.env.MODE=off")
    assert overridden.variants["glibc"].env == {**expected, "VER": "2.50", "MODE": "off"}


def test_matrix_values_are_named_as_written(specs):
    text = SPEC + "matrix: {base: {allocator: {name: system}}, axes: {env.V: [1.10, 1.1, on]}}\n"
    variants = specs.spec(text).variants
    assert [variants[name].env["V"] for name in ("1.10", "1.1", "on")] == ["1.10", "1.1", "on"]


def test_a_written_out_spec_is_read_back(specs):
    spec = specs.spec(
        None,
        "description='0o17'",
        "variants.je.env={A: '1e3', B: 'on', C: '010', D: 'null', E: ''}",
    )
    again = specs.spec(spec_document(spec))
    assert again == spec
    assert yaml.safe_load(spec_document(spec))["description"] == "0o17"


def test_merge_keys_work_and_own_keys_win(specs):
    text = SPEC.replace("  glibc: {allocator: {name: system}}", """\
  glibc: &g {allocator: {name: system}, env: &e {A: 1, B: 2}}
  other: {<<: *g, env: {<<: [{B: 9, C: 3}, *e], A: 010}}""")  # fmt: skip
    assert specs.spec(text).variants["other"].env == {"A": "010", "B": "9", "C": "3"}


def test_a_quoted_merge_key_is_a_key(specs):
    assert "unknown key" in specs.errors(SPEC + "'<<': {blocks: 3}\n")[0]
    assert "duplicate key" in "\n".join(specs.errors("<<: {}\n<<: {}\n"))


def test_tabs_separate_but_do_not_indent(specs):
    """JSON may be indented with tabs."""
    text = (
        SPEC + "description:\tx\t# why\nbuckets: [\n\tephemeral,\n\t\tpersistent\t]\t\nseed: 5\t\n"
    )
    spec = specs.spec(text)
    assert (spec.description, spec.seed) == ("x", 5)
    assert [str(bucket) for bucket in spec.buckets] == ["ephemeral", "persistent"]
    as_json = json.dumps(yaml.safe_load(SPEC), indent="\t")
    assert specs.spec(as_json) == specs.spec(SPEC)


@pytest.mark.parametrize("step", ["\u00b2", "9" * 5000])
def test_an_index_is_a_decimal_number(specs, step):
    text = SPEC + "buckets: [ephemeral]\n"
    for override in (f"buckets.{step}=persistent", f"buckets[{step}]=persistent"):
        assert "expected" in specs.errors(text, override)[0]


def bomb(levels: int, width: int, form: str) -> str:
    lines = ["a0: &a0 {k: 1}"]
    lines += [
        f"a{i}: &a{i} {form.format(', '.join([f'*a{i - 1}'] * width))}" for i in range(1, levels)
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (bomb(9, 10, "{{x: [{}]}}"), "more than 100000 values (anchors inside anchors?)"),
        (bomb(300, 1, "{{x: {}}}"), "more than 100 nested collections"),
        ("a: " + "[" * 2000 + "]" * 2000, "spec.yaml:1: not valid YAML: more than 100 nested collections"),
        ("# " + "x" * core.MAX_BYTES, "more than 1 MiB"),
        ("a: &a {b: &b {<<: *a}}\n", "an anchor that contains itself"),
        ("a: {<<: 5}\n", "expected a mapping or a list of mappings for merging"),
        ("%YAML 1.1\n---\na: on\n", "expected YAML 1.2, got a %YAML directive of an older version"),
        ("a: b\nc: d\x07\n", "spec.yaml:2: not valid YAML: the character U+0007 is not allowed"),
        ("a: b\r\nc: d\x7f\r\n", "spec.yaml:2: not valid YAML: the character U+007F is not allowed"),
        ("a: b\n\tc: d\n", "spec.yaml:2: not valid YAML: while scanning for the next token, found character '\\t'"),
        ("a: b\n-\tc: d\n", "spec.yaml:2: not valid YAML"),
        ("a: b\n\u0085c: d\n", "spec.yaml:2: not valid YAML: the invisible character U+0085: remove it"),
    ],
)  # fmt: skip
def test_limits_hold_before_anything_is_expanded(specs, text, message):
    assert message in specs.errors(text)[0]


def test_a_line_of_tabs_costs_what_it_is_written_with(specs, monkeypatch):
    seen = 0
    peek = core.CoreLoader.peek

    def counted(self, index=0):
        nonlocal seen
        seen += 1
        return peek(self, index)

    monkeypatch.setattr(core.CoreLoader, "peek", counted)
    costs = []
    for count in (100, 1000):
        seen = 0
        specs.spec(SPEC + "\t " * count + "# why\n")
        costs.append(seen)
    assert costs[1] - costs[0] < 20 * 2 * 900


@pytest.mark.parametrize("name", ["pipe", "zero"])
def test_only_regular_files_are_read(specs, name):
    """A pipe may have no writer and can be read only once; a device may have no end."""
    path = specs.directory / name
    if name == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(SpecError, match=f"{name}: expected a regular file"):
        load_spec(path)


def test_other_encodings_are_refused_with_their_line(specs):
    (specs.directory / "spec.yaml").write_bytes(SPEC.encode() + b"description: caf\xe9\n")
    line = SPEC.count("\n") + 1
    assert specs.errors() == [f"spec.yaml:{line}: expected UTF-8 text, got the byte 0xe9"]


def test_the_values_of_a_file_are_limited_as_it_is_read(specs, monkeypatch):
    monkeypatch.setattr(core, "MAX_NODES", 1000)
    assert (
        "spec.yaml:1000: not valid YAML: more than 1000 values" in specs.errors("- 1\n" * 2000)[0]
    )


def test_a_merge_bomb_costs_what_it_is_written_with(specs):
    """PyYAML 6.0 copies the pairs of a merged mapping once for each alias: 10 to the 8 here."""
    text = bomb(9, 10, "{{<<: [{}]}}")
    root = core.CoreLoader(text).get_single_node()
    expansion = core.Expansion()
    expansion.check(root)
    merged = expansion.pairs(root.value[-1][1])
    assert list(merged) == ["k"]
    wide = "\n".join([
        "a: &a {" + ", ".join(f"k{i}: 1" for i in range(500)) + "}",
        "b: {<<: [" + ", ".join(["*a"] * 1000) + "]}",
    ])  # fmt: skip
    assert "more than 100000 values (merge keys?)" in specs.errors(wide)[0]


def test_pieces_inside_pieces_are_limited(specs):
    for i in range(7):
        below = ", ".join(f"k{n}: {{use: p{i + 1}.yaml}}" for n in range(10))
        specs.write(f"p{i}.yaml", f"{{{below}}}")
    specs.write("p7.yaml", "a: 1")
    assert "expected at most 10000 included pieces" in "\n".join(
        specs.errors("use: p0.yaml\n" + SPEC)
    )


DIGITS = st.text(alphabet="0123456789", min_size=1, max_size=6)
SCALARS = st.one_of(
    st.builds("{}{}".format, st.sampled_from(["", "0", "-", "+", "0x", "0o", "0b", "00"]), DIGITS),
    st.builds("{}{}{}".format, DIGITS, st.sampled_from([".", ":", "_", "e", "e+", "E-", ".5e"]), DIGITS),
    st.builds("{}{}".format, DIGITS, st.sampled_from(["k", "M", "Ki", "s", "ms", "%", " k", "GiB"])),
    st.sampled_from(["on", "off", "yes", "No", "y", "true", "True", "FALSE", "tRue", "~", "null", "Null", "", ".inf", ".NaN", "<<", "=", "2001-12-14"]),
    st.text(alphabet="0123456789+-.eExXoOabks_:% ", min_size=1, max_size=8),
)  # fmt: skip


def reading(text: str) -> object:
    """Read a plain scalar as a person who knows the core schema's table would; independent of yaml_core."""
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text[0] in "tT"
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    sign, body = (-1 if text[0] == "-" else 1), text[1:] if text[0] in "+-" else text
    if body.isdigit():
        return sign * sum(int(digit) * 10**i for i, digit in enumerate(reversed(body)))
    for prefix, base, digits in (("0o", 8, "01234567"), ("0x", 16, "0123456789abcdefABCDEF")):
        rest = text.removeprefix(prefix)
        if rest != text and rest and not rest.strip(digits):
            return sum(int(d, 16) * base**i for i, d in enumerate(reversed(rest)))
    mantissa, e, exponent = body.replace("E", "e").partition("e")
    power = exponent[1:] if exponent[:1] in ("+", "-") else exponent
    whole, point, fraction = mantissa.partition(".")
    is_mantissa = (whole + fraction).isdigit() and (bool(whole) or bool(point))
    if is_mantissa and (power.isdigit() if e else True):
        shift = int(exponent or 0) - len(fraction)
        return sign * int(whole + fraction) * Decimal(10) ** shift
    return text


FACTOR = {"k": 1000, "M": 10**6, "Ki": 1024}


def quantity(text: str) -> object:
    value = reading(text)
    if isinstance(value, str) and (match := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *(k|M|Ki)", text)):
        return Decimal(match[1]) * FACTOR[match[2]]
    return value


def plainly(text: str) -> bool:
    """Whether the text is one plain scalar wherever it is put."""
    try:
        event = [*yaml.parse(f"a: {text}\n")][4]
    except yaml.YAMLError:
        return False
    return isinstance(event, yaml.ScalarEvent) and event.value == text


@given(text=SCALARS.map(str.strip).filter(plainly))
@example(text="010").via("issue")
@example(text="1:30").via("issue")
@example(text="...").via("this test")
@example(text="--- a").via("a marker that is none")
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_accepted_scalar_is_what_a_reader_sees(tmp_path: Path, text: str):
    tmp_path.joinpath("cluster.yaml").write_text(CLUSTER)
    spec_file = tmp_path / "spec.yaml"

    def value(field: str) -> object:
        """What validate makes of the scalar in the field, and the same after writing and reading it; or refused."""
        *way, last = field.split(".")
        document = {**yaml.safe_load(SPEC), "cluster": yaml.safe_load(CLUSTER)}
        place: dict = document
        for key in way:
            place = place.setdefault(key, {})
        place[last] = "@@"
        spec_file.write_text(yaml.safe_dump(document).replace("'@@'", text))
        results = []
        for overrides in ([], [f"{field}={text}"]):
            try:
                spec = load_spec(spec_file, overrides)
            except SpecError:
                results.append("refused")
                continue
            matches: object = spec
            for key in field.split("."):
                matches = matches[key] if isinstance(matches, dict) else getattr(matches, key)
            results.append(matches)
        assert results[0] == results[1]
        if results[0] != "refused":
            spec_file.with_name("again.yaml").write_text(spec_document(spec))
            assert load_spec(spec_file.with_name("again.yaml")) == spec
        return results[0]

    assert value("variants.glibc.env.A") in ("refused", text)
    assert value("variants.glibc.params.ht_size") in ("refused", text)
    assert value("description") in ("refused", text)
    assert value("sampling_check") in ("refused", reading(text))
    for field in ("blocks", "seed", "cluster.hosts.here.port"):
        matches = value(field)
        assert matches == "refused" or (
            matches == reading(text) and type(matches) is type(reading(text))
        )
    matches = value(f"{PF}.items")
    assert matches == "refused" or matches == quantity(text)


READABLE = st.characters(exclude_categories=("Cs", "Cc"), include_characters="\t\n\r")


@given(text=st.text(READABLE | st.sampled_from("\u2028\u2029\n '#")))
@example(text="a\u2028b").via("text that was copied from a web page")
@example(text="\u2029 # \ufeff\u00a0")
@settings(max_examples=60, deadline=None)
def test_every_text_survives_being_written_and_read(text: str):
    """Write such a text as a value and as a key, and read it back."""
    written = yaml.dump({text: [text]}, Dumper=core.CoreDumper, allow_unicode=True, width=100)
    root = core.CoreLoader(written).get_single_node()
    ((key, values),) = root.value
    assert [core.scalar_value(node) for node in (key, *values.value)] == [text, text]


def test_a_description_with_an_old_line_break_is_written_so_that_it_can_be_read(specs):
    spec = specs.spec(SPEC + 'description: "a\\u2028b\\u2029"\n')
    assert spec.description == "a\u2028b\u2029"
    assert specs.spec(spec_document(spec)) == spec
