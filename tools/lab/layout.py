"""Where things of a lab lie, and how its hosts are called and numbered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MOST_HOSTS = 64


@dataclass(frozen=True)
class Layout:
    """Of one lab. `number` (0 to 255) tells labs of one machine apart: it is the third byte of the addresses."""

    directory: Path
    number: int

    def address(self, host: int) -> str:
        """Of host 1, 2 ..."""
        return f"10.98.{self.number}.{host}"

    def data_address(self, host: int) -> str:
        """Of the same host, on a network that the machine itself is not on."""
        return f"10.99.{self.number}.{host}"

    @property
    def controller(self) -> str:
        """The machine's own address in the lab."""
        return f"10.98.{self.number}.254"

    @property
    def cable(self) -> str:
        """The machine's network interface that leads to the lab."""
        return f"prlab{self.number}"

    @property
    def key(self) -> Path:
        return self.directory / "user_key"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def socket(self) -> Path:
        return self.directory / "keeper.socket"

    @property
    def log(self) -> Path:
        return self.directory / "keeper.log"

    @property
    def work_dir(self) -> Path:
        """The same path on every host, another directory behind it."""
        return self.directory / "work"

    def host_directory(self, name: str) -> Path:
        """As this machine sees it."""
        return self.directory / "hosts" / name


def host_name(number: int) -> str:
    return f"lab{number}"
