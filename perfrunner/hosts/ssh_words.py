"""The values of ssh's options as text: file names, quotes, tokens and home directories."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path

from perfrunner.errors import HostError
from perfrunner.paths import with_home


def native(text: str) -> str:
    """Return text of `ssh -G`, which is read as UTF-8, as a path or an argument in this locale."""
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def file_names(text: str, *, single: bool = False) -> Iterable[str]:
    """Return the file names of a line of `ssh -G`, which separates them by blanks and does not quote theirs.

    A file that exists decides. Otherwise a name that begins with a slash goes on to the next one that does.
    single: the line is one name.
    """
    if text.lower() == "none":
        return []
    text = native(text)
    if single:
        return [text]
    words = text.split(" ")
    names: list[str] = []
    while words:
        joined = (" ".join(words[:count]) for count in range(len(words), 0, -1))
        name = next((name for name in joined if Path(name).is_file()), None)
        if name is None:
            name = words[0]
            if name.startswith("/"):
                more = takewhile(lambda word: not word.startswith("/"), words[1:])
                name = " ".join([name, *more])
        names.append(name)
        del words[: name.count(" ") + 1]
    return names


def with_tokens(text: str, tokens: Mapping[str, str], option: str) -> str:
    """Replace the tokens of ProxyCommand or ProxyJump. Raises HostError for an unknown one."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in tokens:
            raise HostError(
                f"ssh_config: {option}: unknown token {match[0]} in: {text}",
                hint="ssh knows %h, %k, %n, %p, %r and %% there",
            )
        return tokens[match[1]]

    return re.sub(r"%(.?)", value, text)


def expanded_home(name: str) -> str:
    """Expand `~` as ssh does: by the user database, not by $HOME. Raises HostError for an unknown user."""
    if not name.startswith("~"):
        return name
    user, slash, rest = name[1:].partition("/")
    try:
        entry = pwd.getpwnam(user) if user else pwd.getpwuid(os.getuid())
    except KeyError:
        if not user:
            return str(with_home(name))
        raise HostError(f"ssh_config or cluster file: there is no user {user}: {name}") from None
    return entry.pw_dir + slash + rest


def quoted_path(name: str) -> str:
    """Return a path for `-o`, of an option in which ssh expands tokens: the cluster file has none."""
    return quoted(expanded_home(name).replace("%", "%%"))


def quoted(value: str) -> str:
    """Return a value for `-o`, which ssh splits at blanks."""
    if re.fullmatch(r"[\w./:,@%+-]+", value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
