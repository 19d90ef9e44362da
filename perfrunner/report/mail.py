"""Write the mail of a nightly run: subject and reasons first, at most 40 lines; no mail if nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_LINES = 40
MOST_SUBJECT = 100
NEW_HISTORY = "a new history starts"


@dataclass(frozen=True)
class SpecNight:
    """The nightly result of one spec. `failed`: why its run failed, or empty; `log`: the last lines of its log.

    `before` is the value of `failed` in the previous night. `news` are newly found changes of level. `restarted`: why
    tonight's run cannot continue the history of earlier ones.
    """

    name: str
    failed: str = ""
    before: str = ""
    log: tuple[str, ...] = ()
    news: tuple[str, ...] = ()
    restarted: str = ""
    worse: bool = False
    report: str = ""
    details: tuple[str, ...] = field(default=())  # of the series that changed
    cured: str = "runs again"

    @property
    def changed(self) -> bool:
        """Return whether anything differs from the previous night."""
        return bool(self.news or self.restarted) or self.turned

    @property
    def turned(self) -> bool:
        """Return whether the run fails since tonight, fails differently (`exit code 3: ...`), or runs again."""
        return self.failed.partition(":")[0] != self.before.partition(":")[0]

    @property
    def subject(self) -> str:
        if self.failed and self.turned:
            return f"{self.name} failed: {self.failed}"
        if self.news:
            return f"{self.name}: {self.news[0]}"
        if self.restarted:
            return f"{self.name}: {NEW_HISTORY}: {self.restarted}"
        return f"{self.name} {self.cured}"


def mail_text(nights: Sequence[SpecNight], trend: str) -> str:
    """Return the mail, its first line the subject, or an empty text; order: failed, worse, better."""
    changed = sorted((n for n in nights if n.changed), key=lambda n: (not n.failed, not n.worse))
    if not changed:
        return ""
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    subject = f"perfrunner: {changed[0].subject}"
    if len(subject) + len(more) > MOST_SUBJECT:
        subject = subject[: MOST_SUBJECT - len(more) - 1] + "…"
    reasons = [f"- {line}" for night in changed for line in _reasons(night)]
    rest = [line for night in changed for line in ("", *_details(night))]
    body = [*reasons, *rest]
    head, foot = [f"Subject: {subject}{more}", ""], ["", f"Trend: {trend}"]
    room = MOST_LINES - len(head) - len(foot)
    if len(body) > room:
        body = [*body[: room - 1], f"… {len(body) - room + 1} more lines: see the trend page"]
    return "\n".join([*head, *body, *foot]) + "\n"


def _reasons(night: SpecNight) -> list[str]:
    lines = [f"{night.name}: {line}" for line in night.news]
    if night.restarted:
        lines.append(f"{night.name}: {NEW_HISTORY}: {night.restarted}")
    if night.turned:
        lines.insert(
            0,
            f"{night.name} failed: {night.failed}"
            if night.failed
            else f"{night.name} {night.cured}",
        )
    return lines


def _details(night: SpecNight) -> list[str]:
    shown = [*night.details]
    if night.failed and night.turned:
        shown += [f"    {line}" for line in night.log]
    if night.report:
        shown.append(f"Report of {night.name}: {night.report}")
    return shown
