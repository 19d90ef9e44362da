"""Options and arguments that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfrunner.children import STORE_VARIABLE
from perfrunner.cli import complete
from perfrunner.cli.gate import FAIL_ON
from perfrunner.errors import UsageError
from perfrunner.paths import STORE_FILE, with_home

if TYPE_CHECKING:
    from perfrunner.results import ResultStore

DEFAULT_OUT = Path("perfrunner-results")
# The XDG base directory specification says: paths that are not absolute are ignored.
_CACHE_HOME = Path(os.environ.get("XDG_CACHE_HOME", ""))
DEFAULT_CACHE = (_CACHE_HOME if _CACHE_HOME.is_absolute() else Path("~/.cache")) / "perfrunner"


def _remember_store(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Keep the value of --store in the context, where `open_results` looks for it."""
    del param
    ctx.meta[complete.STORE_META] = value


def store_url() -> str | None:
    """Return the value of --store of the current command, or None."""
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.meta.get(complete.STORE_META)


def open_results(out_dir: Path, *, create: bool = False) -> ResultStore:
    """Open the database of --store for this results directory, by default results.sqlite in it."""
    from perfrunner.results import open_store

    return open_store(out_dir, store_url(), create=create)


def has_store(out_dir: Path) -> bool:
    """Return whether --store names a database or this results directory has its own."""
    return store_url() is not None or (out_dir / STORE_FILE).is_file()


def cache_directory(value: Path) -> Path:
    """Return the directory of the build cache. Raises UsageError if `~` means nothing."""
    path = with_home(value)
    if str(path).startswith("~"):
        # A directory that is called `~` would be made.
        user = path.parts[0][1:]
        why = f"there is no user {user}" if user else "HOME is not set and this user has no name"
        raise UsageError(
            f"cannot use the build cache {path}: {why}",
            "name another directory with --cache DIR or PERFRUNNER_CACHE"
            + ("" if user else ", or set HOME"),
        )
    return path


def _expanded(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    del ctx, param
    return cache_directory(value)


spec_argument = click.argument("spec_path", metavar="SPEC", type=click.Path(path_type=Path))
set_option = click.option(
    "--set",
    "overrides",
    metavar="A.B=VALUE",
    multiple=True,
    help="Change one value of the spec; repeatable. VALUE is YAML. Quote a key that contains dots.",
)
source_option = click.option(
    "--source",
    "named_sources",
    metavar="NAME=REV",
    multiple=True,
    help="Build this variant from another revision, or from a directory if REV begins with '.', '/' or '~';"
    " repeatable. If the spec names a patch, it is applied to the revision.",
)


def cluster_file(help_text: str) -> Callable[..., Any]:
    """Return the option --cluster of a command that uses the hosts as `help_text` says."""
    return click.option(
        "--cluster",
        type=click.Path(path_type=Path),
        metavar="FILE",
        shell_complete=complete.clusters,
        help=help_text,
    )


cluster_option = cluster_file(
    "Use the hosts of FILE; `local` is this machine (default: the spec's hosts)."
)
_directory_option = click.option(
    "--out",
    "out_dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    envvar="PERFRUNNER_OUT",
    default=DEFAULT_OUT,
    help="Results directory (default: ./perfrunner-results).",
)
store_option = click.option(
    "--store",
    metavar="URL",
    envvar=STORE_VARIABLE,
    expose_value=False,
    callback=_remember_store,
    help="Database that several results directories share (default: results.sqlite in --out):"
    " postgresql://... or sqlite:///FILE. Append ?raw=DIR to keep the raw files in DIR.",
)


def out_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --out and --store to a command, which opens the results with `open_results`."""
    return _directory_option(store_option(command))


cache_option = click.option(
    "--cache",
    "cache_dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    envvar="PERFRUNNER_CACHE",
    default=DEFAULT_CACHE,
    help="Build cache (default: ~/.cache/perfrunner).",
    callback=_expanded,
)
engine_source_option = click.option(
    "--engine-src",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Engine source tree (default: $PERFRUNNER_ENGINE_SRC, else engine_src/ near the spec).",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout instead of tables."
)
hosts_option = click.option(
    "--with-hosts",
    is_flag=True,
    help="Include host addresses, user names, key paths and home directories (redacted by default).",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the plan without running it.")
fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="Exit with 1 on this result (default: never). worse: a primary metric is worse and its interval reaches"
    " beyond the margin, or no primary metric has a verdict. unsure: also if a primary metric is unsure, not"
    " comparable or has no verdict. lost: a gain of the spec's `expected_gains` is lost or was not measured.",
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print no progress on stderr.")
tune_option = click.option(
    "--tune",
    "tune",
    is_flag=True,
    help="Tune the hosts for the duration of the run and restore them afterwards (see `perfrunner tune`).",
)
profile_option = click.option(
    "--profile",
    metavar="NAME",
    shell_complete=complete.profiles,
    help="Apply this overlay from the spec's `profiles`; --set is applied after it.",
)
repeats_option = click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Number of blocks (default: the spec's).",
)
seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    metavar="N",
    help="Seed of the random order (default: the spec's, else drawn at random).",
)
resume_option = click.option(
    "--resume",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[RUN]",
    shell_complete=complete.experiments,
    help="Resume the newest unfinished run of SPEC, or the run with the id RUN (then SPEC is not needed).",
)
workloads_option = click.option(
    "--workloads",
    metavar="NAME,...",
    multiple=True,
    help="Run only these workloads (default: all).",
    shell_complete=complete.workloads,
)
variants_option = click.option(
    "--variants",
    metavar="NAME,...",
    multiple=True,
    help="Use only the baseline and these variants (default: all).",
    shell_complete=complete.variants,
)
