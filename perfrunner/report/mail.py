"""What a night says: a text for a mail, subject and reason first, at most 40 lines. Nothing where nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_LINES = 40
MOST_SUBJECT = 100
BEGINS_ANEW = "its history begins anew"


@dataclass(frozen=True)
class SpecNight:
    """One spec's night. `failed`: why its run did not end well, empty where it did; `log`: lines of the end of it.

    `news`: changes of level that became known; `anew`: why tonight's run follows no earlier one; `before` is what
    `failed` was the night before.
    """

    name: str
    failed: str = ""
    before: str = ""
    log: tuple[str, ...] = ()
    news: tuple[str, ...] = ()
    anew: str = ""
    worse: bool = False
    report: str = ""
    details: tuple[str, ...] = field(default=())  # of the series that changed
    cured: str = "runs again"

    @property
    def changed(self) -> bool:
        """Whether there is something to tell that was not so the night before."""
        return bool(self.news or self.anew) or self.turned

    @property
    def turned(self) -> bool:
        """It fails since tonight, fails in another way, or runs again. Only the kind counts: `exit code 3: ...`."""
        return self.failed.partition(":")[0] != self.before.partition(":")[0]

    @property
    def subject(self) -> str:
        if self.failed and self.turned:
            return f"{self.name} failed: {self.failed}"
        if self.news:
            return f"{self.name}: {self.news[0]}"
        if self.anew:
            return f"{self.name}: {BEGINS_ANEW}: {self.anew}"
        return f"{self.name} {self.cured}"


def mail_text(nights: Sequence[SpecNight], trend: str) -> str:
    """Empty, or a text whose first line is the subject: what failed before what is worse before what is better."""
    told = sorted((n for n in nights if n.changed), key=lambda n: (not n.failed, not n.worse))
    if not told:
        return ""
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    subject = f"perfrunner: {told[0].subject}"
    if len(subject) + len(more) > MOST_SUBJECT:
        subject = subject[: MOST_SUBJECT - len(more) - 1] + "…"
    reasons = [f"- {line}" for night in told for line in _reasons(night)]
    rest = [line for night in told for line in ("", *_details(night))]
    body = [*reasons, *rest]
    head, foot = [f"Subject: {subject}{more}", ""], ["", f"trend: {trend}"]
    room = MOST_LINES - len(head) - len(foot)
    if len(body) > room:
        body = [*body[: room - 1], f"… {len(body) - room + 1} more lines: see the trend page"]
    return "\n".join([*head, *body, *foot]) + "\n"


def _reasons(night: SpecNight) -> list[str]:
    lines = [f"{night.name}: {line}" for line in night.news]
    if night.anew:
        lines.append(f"{night.name}: {BEGINS_ANEW}: {night.anew}")
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
        shown.append(f"report of {night.name}: {night.report}")
    return shown
