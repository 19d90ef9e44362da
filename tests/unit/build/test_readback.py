"""Which answers of an engine prove a variant, and which do not."""

from __future__ import annotations

import pytest
from tiny_engine import variant

from perfrunner.build.readback import check_complaints, check_readback, groups_asked, same_value
from perfrunner.errors import ProofError
from perfrunner.spec.allocator import AllocatorSpec
from perfrunner.spec.proof import ProofSpec
from perfrunner.spec.source import SourceSpec
from perfrunner.spec.unproved import unproved


def stats(allocator: dict[str, str] | None = None, config: dict[str, str] | None = None):
    return {
        "allocator": {
            "name": "jemalloc-5.1.0",
            "version": "5.1.0-0-g61efbda7",
            **(allocator or {}),
        },
        "config": config or {},
    }


ARM = variant(
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
    assert check_readback(ARM, {"ht_size": "47"}, ANSWERS) == {
        "allocator.name": "jemalloc-5.1.0",
        "allocator.options.metadata_thp": "always",
        "allocator.options.narenas": "32",
        "allocator.options.background_thread": "true",
        "options.ht_stats": "llc",
        "options.ht_stats_padded": "ON",
        "params.ht_size": "47",
    }


def skipping(*names: str):
    return ARM.model_copy(update={"proof": ProofSpec(skip=names)})


def test_a_skipped_setting_is_kept_as_not_proved_and_only_where_it_is_not() -> None:
    old = stats(
        {"opt.metadata_thp": "always", "opt.narenas": "32", "version": ""},
        {"build.ht_stats": "core"},
    )
    arm = skipping(
        "options", "allocator.version", "allocator.options.background_thread", "allocator.options.narenas"
    )  # fmt: skip
    read = check_readback(arm, {}, old)
    assert unproved(read) == {
        "options.ht_stats": "asked for llc, the engine says core",
        "options.ht_stats_padded": "asked for on, the engine does not tell",
        "allocator.options.background_thread": "asked for true, the engine does not tell",
        "allocator.version": "asked for 5.1.0, the engine says ",
    }
    assert read["allocator.options.narenas"] == "32", "skipped, and told all the same"
    assert unproved(check_readback(skipping("options"), {"ht_size": "47"}, ANSWERS)) == {}


def test_what_is_not_skipped_is_still_refused() -> None:
    with pytest.raises(ProofError, match=r"options\.ht_stats_padded = on cannot be read back"):
        check_readback(skipping("options.ht_stats", "allocator"), {}, stats())
    with pytest.raises(ProofError, match=r"params\.ht_size = 47 cannot be read back"):
        check_readback(skipping("options", "allocator"), {"ht_size": "47"}, stats())


def test_a_group_of_which_nothing_is_to_be_proved_is_not_asked() -> None:
    assert groups_asked(ARM) == groups_asked(skipping("options")) == ("allocator", "config")
    assert groups_asked(skipping("allocator.options", "allocator.name")) == ("allocator", "config")
    assert groups_asked(skipping("allocator", "params")) == ("config",)
    assert groups_asked(skipping("options", "params")) == ("allocator",)
    assert len(unproved(check_readback(skipping("allocator", "options"), {}, {}))) == 7


def test_a_profile_is_read_back_like_an_option() -> None:
    allocator = AllocatorSpec(name="jemalloc-5.1.0", profile="historic")
    arm = variant("jemalloc-5.1.0").model_copy(update={"allocator": allocator})
    assert check_readback(arm, {}, stats({"opt.narenas": "1"})) == {
        "allocator.name": "jemalloc-5.1.0",
        "allocator.options.narenas": "1",
    }
    with pytest.raises(ProofError, match=r"narenas: asked for 1, the engine has 8"):
        check_readback(arm, {}, stats({"opt.narenas": "8"}))


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
        ("allocator", "version", "5.3.0-0-gx", "asked for jemalloc 5.1.0, .* it is 5.3.0"),
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
    with pytest.raises(ProofError, match=f"variant thp: .*{message}") as caught:
        check_readback(ARM, {"ht_size": "47"}, answers)
    assert caught.value.hint


def test_an_option_of_a_later_version_says_so() -> None:
    arm = variant("jemalloc-5.0.1", allocator_options={"slab_sizes": "1-4096:17"})
    with pytest.raises(ProofError) as caught:
        check_readback(arm, {}, {"allocator": {"name": "jemalloc-5.0.1"}, "config": {}})
    assert "jemalloc-5.0.1 may not know slab_sizes" in (caught.value.hint or "")


@pytest.mark.parametrize("version", ["0.0.0-0-g0000000000", "4.5.0-0-gx", "4.5.0"])
def test_old_crates_have_no_version(version: str) -> None:
    answers = {"allocator": {"name": "jemalloc-4.5.0", "version": version}, "config": {}}
    assert check_readback(variant("jemalloc-4.5.0"), {}, answers)


@pytest.mark.parametrize(
    ("asked", "found", "same"),
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
def test_same_value(asked: str, found: str, same: bool) -> None:
    assert same_value(asked, found) is same


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
    with pytest.raises(ProofError, match=r"variant thp: jemalloc-5\.1\.0 rejects its options"):
        check_complaints(ARM, f"started\n{line}\nready\n")


def test_other_lines_are_no_complaints() -> None:
    check_complaints(
        ARM, "started\n<jemalloc>: Error in munmap\nInvalid conf pair of something else\n"
    )


def test_a_setting_that_another_revision_lacks_is_not_laid_to_the_cache() -> None:
    old = ARM.model_copy(update={"source": SourceSpec(git="v0.9")})
    answers = stats(
        {"opt.metadata_thp": "always", "opt.narenas": "32", "opt.background_thread": "true"}
    )
    with pytest.raises(ProofError, match=r"STAT config has no build\.ht_stats") as caught:
        check_readback(old, {}, answers)
    assert "the engine of v0.9 may not know this setting" in str(caught.value.hint)
