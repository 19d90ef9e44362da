"""Whose fault it is when trials that are alive side by side end badly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from perfrunner.cluster.transport import Transport
from perfrunner.errors import PerfrunnerError, TrialError
from perfrunner.measure.turns import failed_arm
from perfrunner.run.events import TrialStatus


class ArmError(TrialError):
    """One arm ended the ensemble; the others did nothing wrong."""

    def __init__(self, arm: int, message: str) -> None:
        super().__init__(message)
        self.arm = arm


@contextlib.contextmanager
def laid_to(arm: int) -> Iterator[None]:
    """What goes wrong inside is this arm's."""
    try:
        yield
    except TrialError as error:
        raise ArmError(arm, str(error)) from error


def explained(error: TrialError, find_dead: Callable[[], Mapping[int, str]]) -> TrialError:
    """An engine that died is the reason, whoever noticed it first. `find_dead`: last words by arm."""
    if isinstance(error, ArmError):
        return error
    dead = find_dead()
    if not dead:
        return error
    arm, said = next(iter(dead.items()))
    return ArmError(arm, said)


def blamed(host: Transport, report: str, arms: int, error: TrialError) -> TrialError:
    """An error of a program that drives all arms, laid to the one that its report (on the host) names."""
    arm, said = failed_arm(host.read_text(report) if host.exists(report) else "")
    if arm is None or not 0 <= arm < arms:
        return error
    return ArmError(arm, f"{error} ({said})" if said else str(error))


def blame(error: PerfrunnerError, variants: Sequence[str]) -> list[tuple[TrialStatus, str]]:
    """What each arm's trial came to, by their order: the one that the error is laid to failed, or all of them did;
    those beside it are void.
    """
    if not isinstance(error, ArmError) or len(variants) == 1:
        return [("failed", str(error))] * len(variants)
    culprit = variants[error.arm]
    return [
        ("failed", str(error))
        if arm == error.arm
        else ("void", f"{culprit}, alive beside it, failed: {error}")
        for arm in range(len(variants))
    ]
