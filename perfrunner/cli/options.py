"""Options and arguments that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfrunner.cli import complete
from perfrunner.cli.engine_source import find_engine_source
from perfrunner.cli.gate import FAIL_ON
from perfrunner.errors import UsageError
from perfrunner.run.command import STORE_VARIABLE
from perfrunner.spec.suggest import expected_name

if TYPE_CHECKING:
    from perfrunner.results import ResultStore
    from perfrunner.source.switches import SwitchTables
    from perfrunner.spec import Spec
    from perfrunner.spec.source import SourceSpec

DEFAULT_OUT = Path("perfrunner-results")
DEFAULT_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "perfrunner"


def _remember_store(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """For `open_results`: few commands do anything with it themselves."""
    del param
    ctx.meta[complete.STORE_META] = value


def store_url() -> str | None:
    """What --store of the command under way says, where it has that option."""
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.meta.get(complete.STORE_META)


def open_results(out_dir: Path, *, create: bool = False) -> ResultStore:
    """The store of --store, as of this results directory; otherwise the directory's own."""
    from perfrunner.results import open_store

    return open_store(out_dir, store_url(), create=create)


def _expanded(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    del ctx, param
    return value.expanduser()


spec_argument = click.argument("spec_path", metavar="SPEC", type=click.Path(path_type=Path))
set_option = click.option(
    "--set",
    "overrides",
    metavar="A.B=VALUE",
    multiple=True,
    help="Change one value of the spec; repeatable. VALUE is YAML; a key with dots is quoted.",
)
source_option = click.option(
    "--source",
    "named_sources",
    metavar="NAME=REV",
    multiple=True,
    help="Build this variant from another revision, or from the directory that a path beginning with '.', '/' or '~'"
    " names; a patch of the spec stays; repeatable.",
)
cluster_option = click.option(
    "--cluster",
    type=click.Path(path_type=Path),
    metavar="FILE",
    shell_complete=complete.clusters,
    help="Run on these hosts instead of the spec's; `local` is this machine.",
)
_directory_option = click.option(
    "--out",
    "out_dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    envvar="PERFRUNNER_OUT",
    default=DEFAULT_OUT,
    show_default="./perfrunner-results",
    help="Where results are kept.",
)
store_option = click.option(
    "--store",
    metavar="URL",
    envvar=STORE_VARIABLE,
    expose_value=False,
    callback=_remember_store,
    help="The database of several results directories: postgresql://..., or sqlite:///FILE; with ?raw=DIR raw files"
    " are kept there by content.  [default: results.sqlite in --out]",
)


def out_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--out and --store: where results are. `open_results` opens them."""
    return _directory_option(store_option(command))


cache_option = click.option(
    "--cache",
    "cache_dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    envvar="PERFRUNNER_CACHE",
    default=DEFAULT_CACHE,
    show_default="~/.cache/perfrunner",
    help="Where builds are kept.",
    callback=_expanded,
)
engine_source_option = click.option(
    "--engine-src",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The engine's source; otherwise $PERFRUNNER_ENGINE_SRC, or engine_src/ near the spec.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout, and nothing else."
)
hosts_option = click.option(
    "--with-hosts",
    is_flag=True,
    help="Leave addresses, users, key paths and home directories in what is told.",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the plan and do nothing.")
fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="worse: end with 1 when a primary metric is worse and its interval reaches beyond the margin, or none has a "
    "verdict. unsure: also when one is unsure, invalid or without a verdict. lost: when a gain that the spec knows of "
    "(gains:) is gone, or was not measured.",
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
tune_option = click.option(
    "--tune", "quieten", is_flag=True, help="Quieten the hosts meanwhile, as perfrunner tune does."
)
profile_option = click.option(
    "--profile",
    metavar="NAME",
    shell_complete=complete.profiles,
    help="Put this overlay of the spec's `profiles` over the rest of it, before --set.",
)
repeats_option = click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Blocks, instead of the spec's number.",
)
seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Seed of the random order."
)
resume_option = click.option(
    "--resume",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[RUN]",
    shell_complete=complete.experiments,
    help="Go on with the newest unfinished run of SPEC, or with RUN: then SPEC may be left out.",
)
workloads_option = click.option(
    "--workloads",
    metavar="NAME,...",
    multiple=True,
    help="Only these workloads.",
    shell_complete=complete.workloads,
)
variants_option = click.option(
    "--variants",
    metavar="NAME,...",
    multiple=True,
    help="Only these variants, and the baseline.",
    shell_complete=complete.variants,
)


def read_spec(
    spec_path: Path,
    overrides: tuple[str, ...] = (),
    cluster: Path | None = None,
    repeats: int | None = None,
    named_sources: tuple[str, ...] = (),
    profile: str | None = None,
    engine_src: Path | None = None,
    *,
    settled: bool = False,
) -> Spec:
    """The spec as the command line changes it. Its build options are those of the engine source in use.

    Revisions are looked for, unless they are `settled`: a run that goes on has copies of them.
    """
    from perfrunner.source.switches import SwitchTables
    from perfrunner.spec import load_spec

    extra = [f"blocks={repeats}"] if repeats is not None else []
    switches = SwitchTables(
        find_engine_source(engine_src, spec_path),
        named_sources,
        revisions_of=lambda: find_engine_source(engine_src, spec_path, revisions=True),
        settled=settled,
    )
    spec = load_spec(spec_path, [*overrides, *extra], cluster, profile, switches)
    spec = with_sources(spec, named_sources)
    check_revisions({name: variant.source for name, variant in spec.variants.items()}, switches)
    return spec


def check_revisions(sources: Mapping[str, SourceSpec | None], switches: SwitchTables) -> None:
    """UsageError that names the variant whose revision is not there."""
    for name, source in sources.items():
        if source is not None and source.git is not None:
            try:
                switches.of_revision(source.git)
            except UsageError as error:
                raise UsageError(f"variant {name}: {error.message}", error.hint) from error


def with_sources(spec: Spec, texts: tuple[str, ...]) -> Spec:
    """The spec with `NAME=REV` of the command line in its variants. UsageError."""
    variants = dict(spec.variants)
    for text in texts:
        # A name may hold `=` itself, as matrix variants do.
        splits = [(text[:i], text[i + 1 :]) for i, c in enumerate(text) if c == "="]
        name, source = next((s for s in splits if s[0] in variants), ("", ""))
        if not name:
            if not splits:
                raise UsageError(f"--source {text}: expected NAME=REVISION or NAME=DIRECTORY")
            expected = expected_name("a variant of the spec", splits[0][0], variants)
            raise UsageError(f"--source {text}: {expected}")
        given, old = named_source(source, f"--source {text}"), variants[name].source
        if given.git is not None and old is not None:
            given = given.model_copy(update={"patch": old.patch})  # the patch stays on top
        variants[name] = variants[name].model_copy(update={"source": given})
    return spec.model_copy(update={"variants": variants})


def named_source(text: str, where: str) -> SourceSpec:
    """A revision or a directory, as a command line names it. UsageError, which says `where`."""
    from pydantic import ValidationError

    from perfrunner.spec.source import source_from_text

    try:
        return source_from_text(text)
    except ValidationError:
        raise UsageError(
            f"{where}: expected a revision, tag or branch of git, or a directory, got {text!r}"
        ) from None


def selection(what: str, texts: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...] | None:
    """Names from `a,b`, where a name may hold commas itself (matrix variants do). None: no selection."""
    if not texts:
        return None
    chosen: list[str] = []
    for text in texts:
        names = split_names(text, known)
        if names is None:
            wrong = [part for part in text.split(",") if part not in known]
            raise UsageError(expected_name(f"a {what} of the spec", ",".join(wrong), known))
        chosen += [name for name in names if name not in chosen]
    return tuple(name for name in known if name in chosen)


def split_names(text: str, known: tuple[str, ...]) -> list[str] | None:
    """`text` as known names joined by commas; None when it cannot be read so."""
    if text in known:
        return [text]
    for name in known:
        if text.startswith(f"{name},"):
            rest = split_names(text[len(name) + 1 :], known)
            if rest is not None:
                return [name, *rest]
    return None
