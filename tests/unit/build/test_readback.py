"""Which answers of an engine check a variant, and which do not."""

from __future__ import annotations

import pytest

from perfrunner.build.settings_check import (
    check_complaints,
    check_readback,
    groups_asked,
    same_value,
)
from perfrunner.domain import unchecked
from perfrunner.errors import SettingsCheckError
from perfrunner.spec.allocator import AllocatorSpec
from perfrunner.spec.source import SourceSpec
from perfrunner.spec.variant import SettingsCheckSpec
from tests.support.tiny_engine import variant


def stats(allocator: dict[str, str] | None = None, config: dict[str, str] | None = None):
    return {
        "allocator": {
            "name": "jemalloc-5.1.0",
            "version": "5.1.0-0-g61efbda7",
            **(allocator or {}),
        },
        "config": config or {},
    }


VARIANT = variant(
    "jemalloc-5.1.0",
    name="thp",
    allocator_options={"metadata_thp": "always", "narenas": "32", "background_thread": "true"},
    options={"ht_stats": "llc", "ht_stats_padded": "on"},
)
ANSWERS = stats(
    {"opt.metadata_thp": "always", "opt.narenas": "32", "opt.background_thread": "true"},
    {"build.ht_stats": "llc", "build.ht_stats_padded": "ON", "ht_size": "47"},
)


def test_everything_asked_is_returned() -> None:
    assert check_readback(VARIANT, {"ht_size": "47"}, ANSWERS) == {
        "allocator.name": "jemalloc-5.1.0",
        "allocator.options.metadata_thp": "always",
        "allocator.options.narenas": "32",
        "allocator.options.background_thread": "true",
        "options.ht_stats": "llc",
        "options.ht_stats_padded": "ON",
        "params.ht_size": "47",
    }


def skipping(*names: str):
    return VARIANT.model_copy(update={"settings_check": SettingsCheckSpec(skip=names)})


def test_a_skipped_setting_is_kept_as_not_checked_and_only_where_it_is_not() -> None:
    old = stats(
        {"opt.metadata_thp": "always", "opt.narenas": "32", "version": ""},
        {"build.ht_stats": "core"},
    )
    chosen = skipping(
        "options", "allocator.version", "allocator.options.background_thread", "allocator.options.narenas"
    )  # fmt: skip
    read = check_readback(chosen, {}, old)
    assert unchecked(read) == {
        "options.ht_stats": "asked for llc, reported as core",
        "options.ht_stats_padded": "asked for on, not reported",
        "allocator.options.background_thread": "asked for true, not reported",
        "allocator.version": "asked for 5.1.0, reported as ",
    }
    assert read["allocator.options.narenas"] == "32", "skipped, and told all the same"
    assert unchecked(check_readback(skipping("options"), {"ht_size": "47"}, ANSWERS)) == {}


def test_what_is_not_skipped_is_still_refused() -> None:
    with pytest.raises(
        SettingsCheckError, match=r"options\.ht_stats_padded = on cannot be read back"
    ):
        check_readback(skipping("options.ht_stats", "allocator"), {}, stats())
    with pytest.raises(SettingsCheckError, match=r"params\.ht_size = 47 cannot be read back"):
        check_readback(skipping("options", "allocator"), {"ht_size": "47"}, stats())


def test_a_group_of_which_nothing_is_to_be_checked_is_not_asked() -> None:
    assert groups_asked(VARIANT) == groups_asked(skipping("options")) == ("allocator", "config")
    assert groups_asked(skipping("allocator.options", "allocator.name")) == ("allocator", "config")
    assert groups_asked(skipping("allocator", "params")) == ("config",)
    assert groups_asked(skipping("options", "params")) == ("allocator",)
    assert len(unchecked(check_readback(skipping("allocator", "options"), {}, {}))) == 7


def test_a_preset_is_read_back_like_an_option() -> None:
    allocator = AllocatorSpec(name="jemalloc-5.1.0", preset="historic")
    chosen = variant("jemalloc-5.1.0").model_copy(update={"allocator": allocator})
    assert check_readback(chosen, {}, stats({"opt.narenas": "1"})) == {
        "allocator.name": "jemalloc-5.1.0",
        "allocator.options.narenas": "1",
    }
    with pytest.raises(SettingsCheckError, match=r"narenas: asked for 1, the engine has 8"):
        check_readback(chosen, {}, stats({"opt.narenas": "8"}))


@pytest.mark.parametrize(
    ("name", "version", "reported"),
    [
        ("mimalloc-2.3.2", "2.3.2", {}),
        ("snmalloc-0.7.6", "0.7.6", {}),
        ("tcmalloc", "gperftools 2.10", {"allocator.version": "gperftools 2.10"}),
    ],
)
def test_the_version_is_compared_with_the_name_or_kept(
    name: str, version: str, reported: dict[str, str]
) -> None:
    answers = {"allocator": {"name": name, "version": version}}
    assert check_readback(variant(name), {}, answers) == {"allocator.name": name, **reported}
    with pytest.raises(SettingsCheckError, match="the allocator reports no version"):
        check_readback(variant(name), {}, {"allocator": {"name": name, "version": ""}})


def test_an_allocator_that_is_not_in_effect_is_refused() -> None:
    other = "malloc of libc.so.6 (strdup does not allocate with mimalloc-2.3.2)"
    with pytest.raises(
        SettingsCheckError, match=r"asked for mimalloc-2\.3\.2, the engine has malloc of libc"
    ):
        check_readback(
            variant("mimalloc-2.3.2"), {}, {"allocator": {"name": other, "version": "2.3.2"}}
        )


@pytest.mark.parametrize(
    ("group", "key", "value", "message"),
    [
        (
            "allocator",
            "name",
            "system",
            "allocator.name: asked for jemalloc-5.1.0, the engine has system",
        ),
        (
            "allocator",
            "opt.metadata_thp",
            "auto",
            "allocator.options.metadata_thp: asked for always",
        ),
        ("allocator", "opt.narenas", None, "STAT allocator has no opt.narenas"),
        ("allocator", "version", "5.3.0-0-gx", "asked for jemalloc 5.1.0, .* version 5.3.0"),
        (
            "config",
            "build.ht_stats",
            "core",
            "options.ht_stats: asked for llc, the engine has core",
        ),
        ("config", "build.ht_stats_padded", "off", "options.ht_stats_padded: asked for on"),
        ("config", "ht_size", "48", "params.ht_size: asked for 47, the engine has 48"),
        ("config", "ht_size", None, "params.ht_size = 47 cannot be read back"),
    ],
)
def test_one_wrong_answer_is_named(group: str, key: str, value: str | None, message: str) -> None:
    answers = {name: dict(values) for name, values in ANSWERS.items()}
    if value is None:
        del answers[group][key]
    else:
        answers[group][key] = value
    with pytest.raises(SettingsCheckError, match=f"variant thp: .*{message}") as caught:
        check_readback(VARIANT, {"ht_size": "47"}, answers)
    assert caught.value.hint


def test_an_option_of_a_later_version_says_so() -> None:
    chosen = variant("jemalloc-5.0.1", allocator_options={"slab_sizes": "1-4096:17"})
    with pytest.raises(SettingsCheckError) as caught:
        check_readback(chosen, {}, {"allocator": {"name": "jemalloc-5.0.1"}, "config": {}})
    assert "version of jemalloc-5.0.1 knows slab_sizes" in (caught.value.hint or "")


@pytest.mark.parametrize("version", ["0.0.0-0-g0000000000", "4.5.0-0-gx", "4.5.0"])
def test_old_crates_have_no_version(version: str) -> None:
    answers = {"allocator": {"name": "jemalloc-4.5.0", "version": version}, "config": {}}
    assert check_readback(variant("jemalloc-4.5.0"), {}, answers)


@pytest.mark.parametrize(
    ("asked", "results", "same"),
    [
        ("true", "true", True),
        ("true", "1", True),
        ("on", "ON", True),
        ("off", "false", True),
        ("false", "0", True),
        ("true", "false", False),
        ("1", "true", False),  # a number was asked
        ("10000", "10000", True),
        ("0.5", "0.50", True),
        ("1e3", "1000", True),
        ("-1", "-1", True),
        ("-1", "18446744073709551615", False),
        ("always", "Always", True),
        ("auto", "disabled", False),
        ("", "0", False),
    ],
)
def test_same_value(asked: str, results: str, same: bool) -> None:
    assert same_value(asked, results) is same


@pytest.mark.parametrize(
    "line",
    [
        "<jemalloc>: Invalid conf pair: metadata_thp:always",
        "<jemalloc>: Invalid conf value: metadata_thp:sometimes",
        "<jemalloc>: Abort (abort_conf:true) on invalid conf value (see above).",
        "<jemalloc>: Conf string ends with key",
        "<jemalloc>: Malformed conf string",
    ],
)
def test_complaints_of_the_allocator(line: str) -> None:
    with pytest.raises(
        SettingsCheckError, match=r"variant thp: jemalloc-5\.1\.0 rejects its options"
    ):
        check_complaints(VARIANT, f"started\n{line}\nready\n")


def test_other_lines_are_no_complaints() -> None:
    check_complaints(
        VARIANT, "started\n<jemalloc>: Error in munmap\nInvalid conf pair of something else\n"
    )


def test_a_setting_that_another_revision_lacks_is_not_laid_to_the_cache() -> None:
    old = VARIANT.model_copy(update={"source": SourceSpec(git="v0.9")})
    answers = stats(
        {"opt.metadata_thp": "always", "opt.narenas": "32", "opt.background_thread": "true"}
    )
    with pytest.raises(SettingsCheckError, match=r"STAT config has no build\.ht_stats") as caught:
        check_readback(old, {}, answers)
    assert "the engine of v0.9 may not know this setting" in str(caught.value.hint)
