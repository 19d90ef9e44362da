"""Is this error a full disk on this machine, whatever it was wrapped into?"""

from __future__ import annotations

import errno

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_SQLITE_FULL = "database or disk is full"


def disk_is_full(error: BaseException) -> bool:
    """Looks through the chain of causes. EFBIG counts: a file-size limit is met in the same way."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, OSError) and current.errno in FULL:
            return True
        if _SQLITE_FULL in str(current):
            return True
        current = current.__cause__ or current.__context__
    return False
