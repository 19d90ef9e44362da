"""The command line of a run, written out again: to go on after an interruption, and to measure the same anew."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from perfrunner.cli.complete import STORE_META
from perfrunner.cli.engine_source import ENVIRONMENT

ONCE = ("resume", "extend", "dry_run")  # they belong to one call, not to the experiment
# Where things are kept, and what is said of the result: nothing of what is measured.
NOT_MEASURED = (*ONCE, "out_dir", "cache_dir", "as_json", "quiet", "fail_on")


def resume_command(ctx: click.Context) -> str:
    """The command line that goes on where this one stopped: the same, with --resume."""
    words = [str(word) for word in _arguments(ctx).values() if word is not None]
    words += [*_options(ctx, ONCE), *_store(ctx), "--resume"]
    return shlex.join(["perfrunner", str(ctx.info_name), *words])


def _store(ctx: click.Context) -> list[str]:
    """--store, if it was given here: without its password, which belongs to no log."""
    if ctx.get_parameter_source("store") != ParameterSource.COMMANDLINE:
        return []
    return ["--store", re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", str(ctx.meta[STORE_META]))]


def measuring_command(ctx: click.Context, spec_path: Path) -> list[str]:
    """What measures the same again, for the report: all that matters, paths relative to the current directory.

    The seed is not in it unless it was given: the experiment knows it.
    """
    given = _arguments(ctx)
    if "spec_path" in given:
        given["spec_path"] = _relative(spec_path)
    words = ["perfrunner", str(ctx.info_name), *map(str, given.values())]
    words += _options(ctx, NOT_MEASURED, _relative)
    if ctx.params.get("engine_src") is None and os.environ.get(ENVIRONMENT):
        words += ["--engine-src", _relative(Path(os.environ[ENVIRONMENT]))]
    return words


def words_of(ctx: click.Context, names: Sequence[str]) -> list[str]:
    """Of the options that were given (here or in the environment) those of `names`, with absolute paths."""
    left_out = [
        name
        for name in ctx.params
        if name not in names or ctx.get_parameter_source(name) == ParameterSource.DEFAULT
    ]
    return _options(ctx, left_out, lambda path: str(path.resolve()))


def options_of(command: Sequence[str], names: Sequence[str]) -> list[str]:
    """Of a measuring command, the options of these flags with their values."""
    pairs = itertools.pairwise(command)
    return [word for flag, value in pairs if flag in names for word in (flag, value)]


def _arguments(ctx: click.Context) -> dict[str, object]:
    names = [p.name or "" for p in ctx.command.params if isinstance(p, click.Argument)]
    return {name: ctx.params[name] for name in names}


def _options(
    ctx: click.Context, left_out: Sequence[str], written: Callable[[Path], str] = str
) -> list[str]:
    """Every option that was given, with its values; `written` says how a path is."""
    words: list[str] = []
    for option in ctx.command.params:
        value = ctx.params.get(option.name or "")
        if not isinstance(option, click.Option) or option.name in left_out:
            continue
        if value in (None, False, (), option.default):
            continue
        flag = max(option.opts, key=len)
        for one in value if isinstance(value, tuple) else (value,):
            text = written(one) if isinstance(one, Path) else str(one)
            words += [flag] if one is True else [flag, text]
    return words


def _relative(path: Path) -> str:
    """As seen from the current directory where it lies in it; as it is elsewhere."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
