"""The request that the options of a command make: a changed spec, a selection of it, and how to run it.

The commands that run, plan or build a spec share most of their options. They receive them as one `RunOptions`.
`find_engine_source` finds the engine's source for them.

`resume_command`, `report_command` and `measuring_command` write the command lines that resume a run, report it again,
or repeat its measurement.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from perfrunner.cli.complete import STORE_META
from perfrunner.cli.options import DEFAULT_CACHE, DEFAULT_OUT
from perfrunner.errors import UsageError
from perfrunner.paths import (
    ENGINE_DIRECTORY,
    OPTIONS_FILE,
    bundled,
    is_engine_source,
    is_inside_engine,
    real_path,
)
from perfrunner.spec.suggest import expected_name, selection

if TYPE_CHECKING:
    from perfrunner.sources.switches import SwitchTables
    from perfrunner.spec.model import Spec
    from perfrunner.spec.source import SourceSpec


ENVIRONMENT = "PERFRUNNER_ENGINE_SRC"  # variable: the directory of the engine's source


def find_engine_source(
    option: Path | None, spec_path: Path | None, *, revisions: bool = False
) -> Path:
    """Return the absolute directory of the engine's CMake project. Raises UsageError.

    The places, in order: --engine-src; $PERFRUNNER_ENGINE_SRC; a directory engine_src/ in the spec's
    directory or above it, or one of these directories itself; the same from the current directory; the
    source in the package. A wrong directory in the first two is an error: the search does not go on.
    `revisions` says that revisions of its repository are going to be built. Then the packaged source
    is refused inside another repository, because the revisions are meant to be those of that one.
    """
    if option is not None:
        return _named(option, "--engine-src")
    named = os.environ.get(ENVIRONMENT)
    if named:
        return _named(Path(named), f"${ENVIRONMENT}")
    for candidate in _candidates(spec_path):
        if is_engine_source(candidate):
            if revisions and candidate == bundled(ENGINE_DIRECTORY):
                _refuse_in_another_repository(candidate)
            return candidate
    raise UsageError(
        "no engine source found near the spec, near the current directory, or in the package",
        f"name it with --engine-src DIR or {ENVIRONMENT}=DIR",
    )


def _named(directory: Path, origin: str) -> Path:
    if not is_engine_source(directory):
        raise UsageError(
            f"{origin} {directory} is not an engine source: it lacks CMakeLists.txt or options/",
            "name the directory engine_src/ of a checkout",
        )
    return real_path(directory)


def _refuse_in_another_repository(source: Path) -> None:
    # Imported late, because most commands do not need git.
    from perfrunner.sources.git import Repository
    from perfrunner.sources.run_git import run_git

    here, packaged = Repository.around(Path.cwd()), Repository.around(source)
    if here is None or (packaged is not None and packaged.top == here.top):
        return
    # Not by Repository.git, which takes patterns literally.
    option_files = run_git(here.top, "ls-files", "-z", "--", f"*/{OPTIONS_FILE}").split("\0")[:-1]
    directories = [name.removesuffix(f"/{OPTIONS_FILE}") for name in option_files]
    if len(directories) == 1:
        hint = f"--engine-src {here.top / directories[0]}"
    else:
        hint = f"name the engine's directory with --engine-src DIR or {ENVIRONMENT}=DIR"
    raise UsageError(
        f"{here.top} has no {ENGINE_DIRECTORY}/ here or above,"
        " and the packaged engine does not have its revisions",
        hint,
    )


def _candidates(spec_path: Path | None) -> Iterator[Path]:
    starts = [Path.cwd()] if spec_path is None else [real_path(spec_path).parent, Path.cwd()]
    for start in starts:
        for directory in (start, *start.parents):
            yield directory / ENGINE_DIRECTORY
            if is_inside_engine(directory):
                yield directory
    yield bundled(ENGINE_DIRECTORY)


R = TypeVar("R")


@dataclass(frozen=True)
class RunOptions:
    """The values of the options that `run`, `ab`, `aa`, `bisect`, `plan`, `build` and `fleet submit` share.

    A field keeps its default if the command does not have the option.
    """

    overrides: tuple[str, ...] = ()
    profile: str | None = None
    named_sources: tuple[str, ...] = ()
    repeats: int | None = None
    cluster: Path | None = None
    engine_src: Path | None = None
    workloads: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    seed: int | None = None
    tune: bool = False
    dry_run: bool = False
    out_dir: Path = DEFAULT_OUT
    cache_dir: Path = DEFAULT_CACHE
    fail_on: str | None = None
    as_json: bool = False
    quiet: bool = False

    @property
    def changes_spec(self) -> bool:
        """True if an option changes the spec itself."""
        changes = (self.overrides, self.profile, self.named_sources, self.cluster, self.repeats)
        return any(changes)

    def selected(self, spec: Spec) -> Spec:
        """Restrict a spec to the workloads and variants of the options. Raises UsageError."""
        return spec.restricted(
            selection("workload", self.workloads, tuple(spec.workloads)),
            selection("variant", self.variants, tuple(spec.variants)),
        )


def gathered(kind: type[Any], name: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Pass the options that are fields of the dataclass `kind` to a command as one argument called `name`."""
    names = [field.name for field in fields(kind)]

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(command)
        def gathering(*args: Any, **params: Any) -> R:
            values = {field: params.pop(field) for field in names if field in params}
            return command(*args, **params, **{name: kind(**values)})

        return gathering

    return decorate


def read_spec(spec_path: Path, given: RunOptions, *, settled: bool = False) -> Spec:
    """Read a spec and apply the command line's changes; the engine source defines its build options.

    The spec is not restricted to workloads and variants. With `settled`, revisions are not looked up: a resumed run
    has copies of its sources. Raises SpecError or UsageError.
    """
    from perfrunner.servers.checks import ChecksHere
    from perfrunner.sources.switches import SwitchTables
    from perfrunner.spec.loader import load_spec

    blocks = [f"blocks={given.repeats}"] if given.repeats is not None else []
    switches = SwitchTables(
        find_engine_source(given.engine_src, spec_path),
        given.named_sources,
        revisions_of=lambda: find_engine_source(given.engine_src, spec_path, revisions=True),
        settled=settled,
    )
    spec = load_spec(
        spec_path,
        [*given.overrides, *blocks],
        given.cluster,
        given.profile,
        switches,
        ChecksHere(settled=settled),
    )
    spec = with_sources(spec, given.named_sources)
    check_revisions({name: variant.source for name, variant in spec.variants.items()}, switches)
    return spec


def check_revisions(sources: Mapping[str, SourceSpec | None], switches: SwitchTables) -> None:
    """Raise a UsageError that names the variant if its revision does not exist."""
    for name, source in sources.items():
        if source is not None and source.git is not None:
            try:
                switches.of_revision(source.git)
            except UsageError as error:
                raise UsageError(f"variant {name}: {error.message}", error.hint) from error


def with_sources(spec: Spec, texts: tuple[str, ...]) -> Spec:
    """Apply each `NAME=REV` of the command line to the variants of a spec. Raises UsageError."""
    variants = dict(spec.variants)
    for text in texts:
        # A name may contain `=`, as the names of matrix variants do.
        splits = [(text[:i], text[i + 1 :]) for i, c in enumerate(text) if c == "="]
        name, source = next((s for s in splits if s[0] in variants), ("", ""))
        if not name:
            if not splits:
                raise UsageError(f"--source {text}: expected NAME=REVISION or NAME=DIRECTORY")
            expected = expected_name("a variant of the spec", splits[0][0], variants)
            raise UsageError(f"--source {text}: {expected}")
        server = variants[name].server
        if server is not None:
            if server.git is None:
                raise UsageError(
                    f"--source {text}: variant {name} is a server that is not built from git",
                    "give its server the keys git, build and command in the spec",
                )
            changed = server.model_copy(update={"revision": source})
            variants[name] = variants[name].model_copy(update={"server": changed})
            continue
        given, old = named_source(source, f"--source {text}"), variants[name].source
        if given.git is not None and old is not None:
            given = given.model_copy(update={"patch": old.patch})  # the patch stays on top
        variants[name] = variants[name].model_copy(update={"source": given})
    return spec.model_copy(update={"variants": variants})


def named_source(text: str, where: str) -> SourceSpec:
    """Parse a revision or directory of the command line. Raises a UsageError that names `where`."""
    from pydantic import ValidationError

    from perfrunner.spec.source import source_from_text

    try:
        return source_from_text(text)
    except ValidationError:
        raise UsageError(
            f"{where}: expected a git revision, tag or branch, or a directory, got {text!r}",
            "if it is the command of a server, write {port} where the port goes: 'memcached -p {port}'"
            if " " in text
            else None,
        ) from None


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
    url = re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", str(ctx.meta[STORE_META]))
    return ["--store", re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1***", url)]


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
    left_out = [name for name in ctx.params if name not in names]
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
        if value in (None, False, ()) or _is_default(ctx, option.name or ""):
            continue
        flag = max(option.opts, key=len)
        for item in value if isinstance(value, tuple) else (value,):
            text = written(item) if isinstance(item, Path) else str(item)
            args += [flag] if item is True else [flag, text]
    return args


def _is_default(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) == ParameterSource.DEFAULT


def _relative(path: Path) -> str:
    """Return a path below the current directory relative to it, and any other path unchanged."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
