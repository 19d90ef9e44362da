"""`matrix`: variants from combinations."""

from __future__ import annotations

from tests.unit.spec.conftest import SPEC

EXPLICIT = SPEC[SPEC.index("variants:") : SPEC.index("workloads:")]
MATRIX = """\
variants:
  glibc: {allocator: {name: system}}
matrix:
  base: {options: {cursor_drop: compare}}
  axes:
    allocator.name: [jemalloc-5.1.0, jemalloc-5.3.1]
    allocator.options.metadata_thp: [null, always]
  exclude:
    - {allocator.name: jemalloc-5.3.1, allocator.options.metadata_thp: always}
"""


def with_matrix(old="", new=""):
    assert old in MATRIX
    return SPEC.replace(EXPLICIT, MATRIX.replace(old, new))


def test_combinations_follow_the_written_variants_in_order(specs):
    spec = specs.spec(with_matrix())
    assert list(spec.variants) == [
        "glibc",
        "jemalloc-5.1.0,default",
        "jemalloc-5.1.0,always",
        "jemalloc-5.3.1,default",
    ]
    always = spec.variants["jemalloc-5.1.0,always"]
    assert always.allocator.name == "jemalloc-5.1.0"
    assert always.allocator.options == {"metadata_thp": "always"}
    assert always.options == {"cursor_drop": "compare"}
    assert spec.variants["jemalloc-5.1.0,default"].allocator.options == {}


def test_null_leaves_out_what_the_base_sets(specs):
    base = "  base: {allocator: {options: {metadata_thp: auto, narenas: 2}}, options: {cursor_drop: compare}}\n"
    spec = specs.spec(with_matrix("  base: {options: {cursor_drop: compare}}\n", base))
    default, always = (
        spec.variants["jemalloc-5.1.0,default"],
        spec.variants["jemalloc-5.1.0,always"],
    )
    assert default.allocator.options == {"narenas": "2"}
    assert always.allocator.options == {"metadata_thp": "always", "narenas": "2"}


def test_a_matrix_alone_is_enough(specs):
    text = with_matrix("variants:\n  glibc: {allocator: {name: system}}\n", "")
    assert len(specs.spec(text, 'baseline="jemalloc-5.1.0,always"').variants) == 3


def test_an_override_reaches_a_combination(specs):
    spec = specs.spec(with_matrix(), 'variants."jemalloc-5.1.0,always".params.ht_size=3')
    assert spec.variants["jemalloc-5.1.0,always"].params == {"ht_size": "3"}


def test_an_override_changes_an_axis(specs):
    spec = specs.spec(with_matrix(), 'matrix.axes."allocator.name"[0]=jemalloc-5.2.1')
    assert "jemalloc-5.2.1,always" in spec.variants


def test_a_wrong_axis_value_is_reported_once_at_its_place(specs):
    problems = specs.errors(with_matrix("[null, always]", "[null, 'a,b', always]"))
    assert len(problems) >= 1
    assert all(
        p.startswith('spec.yaml:10: matrix.axes."allocator.options.metadata_thp"[1]')
        for p in problems
    )


def test_a_mistyped_axis_is_an_unknown_key_at_its_values(specs):
    problems = specs.errors(
        with_matrix(
            "allocator.options.metadata_thp: [null, always]\n  exclude:\n    - {allocator.name: jemalloc-5.3.1, allocator.options.metadata_thp: always}",
            "optoins.ht_stats: [single]",
        )
    )
    assert problems == [
        'spec.yaml:10: matrix.axes."optoins.ht_stats"[0]: unknown key (did you mean options?); '
        "expected one of allocator, options, params, env"
    ] or all("did you mean options?" in p for p in problems)


def test_excludes_must_name_axes_and_values_and_match(specs):
    problems = specs.errors(
        with_matrix(
            "{allocator.name: jemalloc-5.3.1, allocator.options.metadata_thp: always}",
            "{allocator.nam: x}",
        )
    )
    assert (
        "expected an axis: allocator.name, allocator.options.metadata_thp; got allocator.nam"
        in problems[0]
    )
    problems = specs.errors(with_matrix("metadata_thp: always}", "metadata_thp: alway}"))
    assert "expected a value of the axis: default, always; got alway" in problems[0]
    both = "{allocator.name: jemalloc-5.3.1}\n    - {allocator.name: jemalloc-5.3.1, allocator.options.metadata_thp: always}"
    assert (
        len(
            specs.spec(
                with_matrix(
                    "{allocator.name: jemalloc-5.3.1, allocator.options.metadata_thp: always}", both
                )
            ).variants
        )
        == 3
    )


def test_a_matrix_that_leaves_nothing_is_an_error(specs):
    text = with_matrix("{allocator.name: jemalloc-5.3.1, allocator.options.metadata_thp: always}",
                       "{allocator.name: jemalloc-5.3.1}\n    - {allocator.name: jemalloc-5.1.0}")  # fmt: skip
    assert "expected at least one remaining combination" in specs.errors(text)[0]


def test_malformed_matrices(specs):
    assert (
        "matrix.axes: expected a mapping from a setting to its values, got nothing"
        in specs.errors(SPEC + "matrix: {}\n")[0]
    )
    assert (
        "expected a list of values, got an empty list"
        in specs.errors(SPEC + "matrix: {axes: {a: []}}\n")[0]
    )
    assert (
        "unknown key (did you mean axes?)" in specs.errors(SPEC + "matrix: {axis: {a: [1]}}\n")[0]
    )
    big = ", ".join(f"params.p{i}: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]" for i in range(4))
    assert (
        "at most 1000 combinations, got 10000"
        in specs.errors(SPEC + f"matrix: {{axes: {{{big}}}}}\n")[0]
    )


def test_a_combination_may_not_take_a_written_name(specs):
    text = SPEC + "matrix: {base: {allocator: {name: system}}, axes: {params.x: [je]}}\n"
    assert "expected a name that differs from all matrix combinations" in specs.errors(text)[0]


def test_an_axis_may_not_undo_another_one(specs):
    axes = "{env: [{}], env.X: [1, 2]}"
    assert specs.errors(SPEC + f"matrix: {{axes: {axes}}}\n")
    axes = "{env: [1, 2], env.X: [3, 4]}"
    problems = specs.errors(SPEC + f"matrix: {{axes: {axes}}}\n")
    assert problems == [
        'spec.yaml:9: matrix.axes."env.X"[0]: expected an axis that does not change another one,'
        " got one inside of env"
    ]


def test_values_that_make_no_name_are_reported_at_their_place(specs):
    matrix = "matrix:\n  base: {allocator: {name: system}}\n  axes:\n    env.A: [a]\n    env.X: [b, /c]\n"
    (problem,) = specs.errors(SPEC + matrix)
    assert problem.startswith('spec.yaml:13: matrix.axes."env.X"[1]: ')
    (problem,) = specs.errors(SPEC + matrix.replace("[a]", '[""]'))
    assert problem.startswith('spec.yaml:12: matrix.axes."env.A"[0]: ')


def test_an_axis_of_an_unknown_setting_is_reported_at_its_values(specs):
    matrix = (
        "matrix:\n  base: {allocator: {name: system}}\n  axes:\n    enw.A: [a]\n    env.B: [b]\n"
    )
    (problem,) = specs.errors(SPEC + matrix)
    assert problem.startswith('spec.yaml:12: matrix.axes."enw.A"[0]: ')


def test_the_values_of_all_combinations_are_limited(specs):
    base = ", ".join(f"V{i}: 1" for i in range(1000))
    axis = ", ".join(str(i) for i in range(200))
    matrix = f"matrix: {{base: {{allocator: {{name: system}}, env: {{{base}}}}}, axes: {{env.X: [{axis}]}}}}"
    (problem,) = specs.errors(f"{SPEC}{matrix}\n")
    assert "expected at most 100000 values in all combinations" in problem
