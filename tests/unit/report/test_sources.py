"""The section on what was built."""

from __future__ import annotations

import dataclasses
import html
import json
import shlex

import pytest
import synthetic

from perfrunner.domain import NO_BUCKET, not_checked
from perfrunner.report import build_report, render
from perfrunner.sources.model import Distance, ResolvedSource, as_record

MAIN = ResolvedSource(
    "main",
    "a" * 64,
    "/repo/engine_src/",
    1,
    True,
    "1" * 40,
    "lists: one walk",
    "2026-01-02T03:04:05Z",
)
FIX = dataclasses.replace(
    MAIN, name="main + fix.patch", sha256="b" * 64, patch="/tmp/fix.patch", patch_sha256="c" * 64
)
TREE = dataclasses.replace(
    MAIN, name="engine source", sha256="d" * 64, revision=False, dirty=("x.cc",)
)
FAR = Distance(
    ahead=22, behind=1, log=("abc1234 newest", "abc1233 older"), files=23, added=40, removed=2,
    changed=(("bucket/a.cc", 30, 2), ("b.h", 10, 0)),
)  # fmt: skip


@pytest.fixture
def from_sources(data):
    """The synthetic experiment, its variants built from a revision and a patch on it."""
    first, second = list(data.experiment.spec_json["variants"])[:2]
    record = {
        "variants": {first: as_record(MAIN), second: as_record(FIX)},
        "tools": as_record(TREE),
        "distances": {second: as_record(FAR)},
    }
    spec = {**data.experiment.spec_json, "baseline": first}
    facts = {**data.experiment.facts, "sources": json.loads(json.dumps(record))}
    experiment = dataclasses.replace(data.experiment, spec_json=spec, facts=facts)
    return dataclasses.replace(data, experiment=experiment), first, second


def test_every_variant_is_named_with_its_commit_its_patch_and_its_distance(from_sources):
    data, first, second = from_sources
    facts = [tuple(fact) for fact in build_report(data).sources]
    commit = '111111111111 "lists: one walk" of 2026-01-02'
    assert facts == [
        (first, f"main: {commit}, content aaaaaaaaaaaa"),
        (second, f"main + fix.patch: {commit}, with fix.patch (sha256 cccccccccccc), content bbbbbbbbbbbb"),
        ("load tools of every variant", f"engine source: {commit}, changed: x.cc, content dddddddddddd"),
        (f"{first}..{second}", "22 commits ahead, 1 behind; 23 files, +40 -2 lines"),
        ("commit abc1234", "newest"),
        ("commit abc1233", "older"),
        ("commits", "and 20 more"),
        ("files", "bucket/a.cc +30 -2, b.h +10 -0, and 21 more"),
    ]  # fmt: skip


@pytest.mark.parametrize("style", ["terminal", "markdown", "commit", "json"])
def test_every_format_names_the_sources(from_sources, style):
    text = " ".join(render(build_report(from_sources[0]), style, verbose=True).split())
    assert "fix.patch" in text
    assert "lists: one walk" in text


def test_the_reproduce_line_names_the_content_of_a_tree(from_sources):
    """No option can give a tree's content back: any client that runs it again sees whether it is that tree."""
    data, first, second = from_sources
    tree = dataclasses.replace(TREE, name="dir ../kv")
    data.experiment.facts["sources"]["variants"][second] = as_record(tree)
    line = build_report(data).reproduce
    assert f"--source {first}=111111111111" in line
    assert line.endswith(f"  # {second}: the tree had content dddddddddddd")
    assert shlex.split(line, comments=True) == shlex.split(line.split("  # ")[0])


def test_the_reproduce_line_names_the_commits(from_sources):
    data, first, second = from_sources
    commits = f"--source {first}=111111111111 --source {second}=111111111111"
    assert build_report(data).reproduce.endswith(commits)


def first_screen(data):
    page = synthetic.plain_page(data)
    return html.unescape(page.split('id="compared"')[1].split('id="explore"')[0])


def test_the_page_tells_a_source_that_all_variants_share_once(from_sources):
    data, *_ = from_sources
    variants = {variant: as_record(TREE) for variant in data.experiment.spec_json["variants"]}
    facts = {**data.experiment.facts, "sources": {"variants": variants, "tools": as_record(TREE)}}
    shared = dataclasses.replace(data, experiment=dataclasses.replace(data.experiment, facts=facts))
    text = first_screen(shared)
    assert len(variants) == 3
    assert text.count("content dddddddddddd") == 1
    assert "all built from" in text


def test_the_page_tells_what_sets_the_variants_apart_next_to_each(from_sources):
    text = first_screen(from_sources[0])
    assert text.count("content aaaaaaaaaaaa") == text.count("content bbbbbbbbbbbb") == 1
    assert "all built from" not in text


@pytest.mark.parametrize("style", ["terminal", "markdown", "commit", "json"])
def test_a_variant_that_is_not_wholly_checked_says_so_and_is_marked_everywhere(data, style):
    base, variant, other = data.experiment.spec_json["variants"]
    assert base == data.experiment.spec_json["baseline"]
    lacking = {"allocator.name": "system", "options.ht_stats": not_checked("llc", None)}
    builds = tuple(
        dataclasses.replace(b, settings=lacking) if b.variant == variant else b for b in data.builds
    )
    whole, partly = build_report(data), build_report(dataclasses.replace(data, builds=builds))
    warning = (
        f"{variant}: not checked because of settings_check.skip: options.ht_stats"
        " (asked for llc, not reported)"
    )
    assert warning in partly.warnings
    of_a_server = tuple(
        dataclasses.replace(b, settings={**b.settings, "server.kind": "redis"}) for b in builds
    )
    (text,) = (
        warning
        for warning in build_report(dataclasses.replace(data, builds=of_a_server)).warnings
        if "not checked" in warning
    )
    assert text == f"{variant}: not checked: options.ht_stats (asked for llc, not reported)"
    assert {row.variant for row in partly.comparison.rows if not row.checked} == {variant}
    output = {s.variant: str(s) for s in partly.sentences}
    assert "not all settings are checked" in output[variant]
    assert "checked" not in output[other]

    def words(report):
        return " ".join(render(report, style, verbose=True).replace("\\", "").split())

    assert warning in words(partly)
    assert "checked)" not in words(whole)
    if style == "json":
        results = json.loads(render(partly, style))["results"]
        assert {r["variant"] for r in results if not r["checked"]} == {variant}
    else:
        assert words(partly).count("not checked)") >= len(partly.comparison.cases)


def test_a_baseline_that_is_not_wholly_checked_marks_every_comparison(data):
    base, *others = data.experiment.spec_json["variants"]
    lacking = {"allocator.version": not_checked("5.1.0", "4.5.0")}
    builds = tuple(
        dataclasses.replace(b, settings=lacking) if b.variant == base else b for b in data.builds
    )
    changed = dataclasses.replace(data, builds=builds)
    report = build_report(changed)
    compared = [row for row in report.comparison.rows if row.effect is not None]
    assert {row.variant for row in compared if not row.checked} == {*others}
    assert not any(row.checked for row in compared)
    assert all("not all settings are checked" in str(s) for s in report.sentences)
    page = html.unescape(synthetic.plain_page(changed))
    assert "asked for 5.1.0, reported as 4.5.0" in page
    assert page.count("not checked)") > len(others)


def test_an_older_store_has_no_such_section(data):
    assert build_report(data).sources == ()


def test_servers_that_are_one_program_may_be_an_aa(from_sources):
    data, first, second = from_sources
    server = {"command": ["./srv", "{port}"], "git": "/r", "build": [["make"]]}

    def warned(program: str, content: str = "0123", **changes: object) -> list[str]:
        command = [program, *server["command"][1:]]
        servers = {
            first: {**server, "command": command, "revision": "v1"},
            second: {**server, "command": command, "revision": "v2", **changes},
        }
        builds = tuple(
            dataclasses.replace(b, variant=v, build_id=f"srv-{c}")
            for b, v, c in zip(data.builds, servers, ("0123", content), strict=False)
        )
        variants = {name: {"name": name, "server": s} for name, s in servers.items()}
        spec = {**data.experiment.spec_json, "variants": variants}
        experiment = dataclasses.replace(data.experiment, spec_json=spec)
        report = build_report(dataclasses.replace(data, builds=builds, experiment=experiment))
        return [text for text in report.warnings if "the same program" in text]

    (text,) = warned("./srv")
    assert text.startswith(f"{first} and {second} are the same program (srv-0123)")
    assert warned("./srv", command=["/other/copy", "{port}"]) == [text]
    assert warned("./srv", content="4567") == []
    assert warned("./srv", command=["./srv", "{port}", "-t", "2"]) == []
    assert warned("python3") == []


def test_variants_that_are_one_build_are_called_an_aa(from_sources):
    data, first, second = from_sources
    variants = {
        first: {"name": first, "allocator": {"name": "system"}, "source": {"git": "main"}},
        second: {"name": second, "allocator": {"name": "system"}, "source": {"git": "v1"}},
    }
    builds = tuple(
        dataclasses.replace(b, variant=v, build_id="same")
        for b, v in zip(data.builds, (first, second), strict=False)
    )
    spec = {**data.experiment.spec_json, "variants": variants}
    alike = dataclasses.replace(
        data, builds=builds, experiment=dataclasses.replace(data.experiment, spec_json=spec)
    )
    warning = (
        f"{first} and {second} are the same build (same) with the same settings: this is an A/A"
    )
    assert warning in build_report(alike).warnings
    variants[second]["params"] = {"ht_size": "3"}
    assert warning not in build_report(alike).warnings

    without_engine = dataclasses.replace(data.trials[0], workload="htb", bucket=NO_BUCKET)
    alike = dataclasses.replace(alike, trials=(*data.trials, without_engine))
    there = (
        f"{first} and {second} are the same build (same): their params are the engine's,"
        " which htb does not run; there this is an A/A"
    )
    assert there in build_report(alike).warnings
