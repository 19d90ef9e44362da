"""Define the directories, names and addresses of a lab."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MOST_HOSTS = 64


@dataclass(frozen=True)
class Layout:
    """The layout of a lab. `number` (0 to 255), the third byte of addresses, distinguishes labs of one machine."""

    directory: Path
    number: int

    def address(self, host: int) -> str:
        """Return the address of host 1, 2 ..."""
        return f"10.98.{self.number}.{host}"

    def data_address(self, host: int) -> str:
        """Return the address of a host on the network that connects the hosts alone."""
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
        """The work directory: the same path on every host, each with its own directory."""
        return self.directory / "work"

    def host_directory(self, name: str) -> Path:
        """Return the directory of a host on this machine."""
        return self.directory / "hosts" / name


def host_name(number: int) -> str:
    return f"lab{number}"
