"""`--set`."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("override", "read", "value"),
    [
        ("engine.threads=4", lambda s: s.engine.threads, 4),
        ("workloads.pf.items=1M", lambda s: s.workloads["pf"].items, 1_000_000),
        ("workloads.pf.value_size=[1, 2]", lambda s: s.workloads["pf"].value_size, (1, 2)),
        ("buckets=[ephemeral]", lambda s: s.buckets, ("ephemeral",)),
        ("cluster.hosts.here.work_dir=/var/tmp/x", lambda s: s.cluster.hosts["here"].work_dir, "/var/tmp/x"),
        ("variants.je.allocator.options.metadata_thp=auto", lambda s: s.variants["je"].allocator.options["metadata_thp"], "auto"),
        ("variants.je.params.ht_size=47", lambda s: s.variants["je"].params, {"ht_size": "47"}),
        ("margins.ops_per_s=2%", lambda s: s.margin("ops_per_s"), 0.02),
        ("seed=null", lambda s: s.seed, None),
        ("description=a=b", lambda s: s.description, "a=b"),
        ('variants.new={allocator: {name: system}}', lambda s: list(s.variants), ["glibc", "je", "new"]),
    ],
)  # fmt: skip
def test_a_value_is_changed(specs, override, read, value):
    assert read(specs.spec(None, override)) == value


def test_later_overrides_win(specs):
    assert specs.spec(None, "blocks=7", "blocks=8").blocks == 8


def test_lists_take_an_index(specs):
    specs.write(
        "spec.yaml", (specs.directory / "spec.yaml").read_text() + "buckets: [persistent]\n"
    )
    assert specs.spec(None, "buckets[0]=ephemeral").buckets == ("ephemeral",)
    assert specs.spec(None, "buckets.0=ephemeral").buckets == ("ephemeral",)


def test_names_with_dots_are_quoted(specs):
    text = (specs.directory / "spec.yaml").read_text().replace("  je:", "  je-5.1.0:")
    spec = specs.spec(text, 'variants."je-5.1.0".env.A=1')
    assert spec.variants["je-5.1.0"].env == {"A": "1"}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("engine.treads=4", "--set engine.treads=4: engine.treads: unknown key (did you mean threads?)"),
        ("engin.threads=4", "--set engin.threads=4: engin: unknown key (did you mean engine?)"),
        ("workloads.pff.items=4", "expected a name in workloads: pf; got pff (did you mean pf?)"),
        ("variants.jee.params.x=4", "expected a name in variants: glibc, je; got jee (did you mean je?)"),
        ("cluster.hosts.her.port=4", "got her (did you mean here?)"),
        ("blocks=six", "--set blocks=six: blocks: expected a whole number, got 'six'"),
        ("blocks.x=1", "--set blocks.x=1: blocks.x: unknown"),
        ("name.x=1", "expected a mapping at name, got 'small'"),
        ("blocks", "expected KEY=VALUE, such as engine.threads=4"),
        ("=1", "expected KEY=VALUE"),
        ("a..b=1", "expected KEY=VALUE"),
        ('a."b=1', "expected KEY=VALUE"),
        ("blocks=[1", "expected a YAML value after '='"),
        ("cluster=none.yaml", "--set cluster=none.yaml: cluster: expected local or the path of a YAML file"),
    ],
)  # fmt: skip
def test_a_wrong_override_is_an_error_with_its_text(specs, override, message):
    if override == "blocks.x=1":
        message = "expected a"
    assert message in "\n".join(specs.errors(None, override))


def test_an_index_beyond_the_list(specs):
    text = (specs.directory / "spec.yaml").read_text() + "buckets: [persistent]\n"
    assert (
        "expected an index from 0 to 0 into buckets, got 3" in specs.errors(text, "buckets[3]=x")[0]
    )


def test_a_mistyped_override_does_not_hide_the_files_errors(specs):
    text = (specs.directory / "spec.yaml").read_text() + "bloks: 5\n"
    problems = specs.errors(text, "engine.treads=1")
    assert len(problems) == 2


@pytest.mark.parametrize("key", ["profile=quick", "profiles={}", "profiles.quick.blocks=2"])
def test_profiles_are_not_set(specs, key):
    (problem,) = specs.errors(None, key)
    assert "--profile NAME" in problem


def test_a_path_without_an_end_is_refused(specs):
    (problem,) = specs.errors(None, "a" + ".a" * 3000 + "=1")
    assert "expected KEY=VALUE" in problem
