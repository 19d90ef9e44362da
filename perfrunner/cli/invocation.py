"""Write the command lines that resume a run, report it again, or repeat its measurement."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from perfrunner.cli.complete import STORE_META
from perfrunner.cli.request import ENVIRONMENT
from perfrunner.paths import real_path

ONCE = ("resume", "extend", "dry_run")  # they apply to one call, not to the experiment
# Options that do not affect the measurement.
NOT_MEASURED = (*ONCE, "out_dir", "cache_dir", "as_json", "quiet", "fail_on")


def resume_command(ctx: click.Context) -> str:
    """Return the command line that resumes this one: the same, with --resume."""
    args = _words(_arguments(ctx))
    args += [*_options(ctx, ONCE), *_store(ctx), "--resume"]
    return shlex.join(["perfrunner", str(ctx.info_name), *args])


def report_command(ctx: click.Context, experiment_id: str) -> str:
    """Return the command line that reports an experiment of this run again."""
    args = ["perfrunner", "report", experiment_id, *options_given(ctx, ("out_dir",)), *_store(ctx)]
    return shlex.join(args)


def _store(ctx: click.Context) -> list[str]:
    """Return --store if it was given on the command line, with its password masked."""
    if ctx.get_parameter_source("store") != ParameterSource.COMMANDLINE:
        return []
    return ["--store", re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", str(ctx.meta[STORE_META]))]


def measuring_command(ctx: click.Context, spec_path: Path) -> list[str]:
    """Return the command line that repeats the measurement, for the report.

    Paths are relative to the current directory. The seed is included only if it was given, since the
    experiment stores it.
    """
    given = _arguments(ctx)
    if "spec_path" in given:
        given["spec_path"] = _relative(spec_path)
    args = ["perfrunner", str(ctx.info_name), *_words(given)]
    args += _options(ctx, NOT_MEASURED, _relative)
    if ctx.params.get("engine_src") is None and os.environ.get(ENVIRONMENT):
        args += ["--engine-src", _relative(Path(os.environ[ENVIRONMENT]))]
    return args


def options_given(ctx: click.Context, names: Sequence[str]) -> list[str]:
    """Return those options of `names` that the command line or environment sets; paths are absolute."""
    left_out = [
        name
        for name in ctx.params
        if name not in names or ctx.get_parameter_source(name) == ParameterSource.DEFAULT
    ]
    return _options(ctx, left_out, lambda path: str(real_path(path)))


def options_of(command: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the options with these flags, and their values, of a measuring command."""
    pairs = itertools.pairwise(command)
    return [text for flag, value in pairs if flag in names for text in (flag, value)]


def _arguments(ctx: click.Context) -> dict[str, object]:
    names = [p.name or "" for p in ctx.command.params if isinstance(p, click.Argument)]
    return {name: ctx.params[name] for name in names}


def _words(arguments: Mapping[str, object]) -> list[str]:
    """Return the words of a command line; an argument may be repeated, or may be left out."""
    values = [value if isinstance(value, tuple) else (value,) for value in arguments.values()]
    return [str(word) for words in values for word in words if word is not None]


def _options(
    ctx: click.Context, left_out: Sequence[str], written: Callable[[Path], str] = str
) -> list[str]:
    """Return every option that was given, with its values; `written` formats a path."""
    args: list[str] = []
    for option in ctx.command.params:
        value = ctx.params.get(option.name or "")
        if not isinstance(option, click.Option) or option.name in left_out:
            continue
        if value in (None, False, (), option.default):
            continue
        flag = max(option.opts, key=len)
        for item in value if isinstance(value, tuple) else (value,):
            text = written(item) if isinstance(item, Path) else str(item)
            args += [flag] if item is True else [flag, text]
    return args


def _relative(path: Path) -> str:
    """Return a path below the current directory relative to it, and any other path unchanged."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
