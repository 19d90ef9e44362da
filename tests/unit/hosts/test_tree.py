"""What a host sends is unpacked in its place and nowhere else."""

from __future__ import annotations

import errno
import io
import tarfile
from pathlib import Path

import pytest

from perfrunner.build.cache import space_hint
from perfrunner.errors import HostError
from perfrunner.experiment.outdir import disk_fails
from perfrunner.hosts.packing import pack_tree, tree_digest, unpack_tree


def archive(name: str, kind: bytes = tarfile.REGTYPE) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.size, info.mode = kind, 1 if kind == tarfile.REGTYPE else 0, 0o4755
        info.linkname = "/etc/passwd"
        tar.addfile(info, io.BytesIO(b"x") if info.size else None)
    out.seek(0)
    return out


def test_a_file_has_its_mode_but_no_special_bits(tmp_path: Path) -> None:
    unpack_tree(archive("./bin/tool"), tmp_path)
    assert (tmp_path / "bin" / "tool").read_bytes() == b"x"
    assert (tmp_path / "bin" / "tool").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("name", ["/tmp/x", "../x", "a/../../x", "./.."])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    place = tmp_path / "in" / "here"
    place.mkdir(parents=True)
    with pytest.raises(HostError, match="is not a valid file name"):
        unpack_tree(archive(name), place)
    assert [*tmp_path.rglob("*")] == [tmp_path / "in", place]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_only_files_and_directories(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(HostError, match="neither a file nor a directory"):
        unpack_tree(archive("x", kind), tmp_path)
    assert not list(tmp_path.iterdir())


def test_half_an_archive(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="archive is incomplete or damaged"):
        unpack_tree(io.BytesIO(archive("x").getvalue()[:100]), tmp_path)


def test_what_is_there_is_reported_without_packing_it(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").write_bytes(b"x")
    (tmp_path / "link").symlink_to("bin/tool")
    digest = tree_digest(tmp_path)
    assert digest == pack_tree(tmp_path, io.BytesIO())
    (tmp_path / "bin" / "tool").write_bytes(b"y")
    assert tree_digest(tmp_path) != digest


def test_a_full_temporary_directory_is_not_that_of_the_results(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full, pytest.raises(HostError, match="No space") as failed:
        pack_tree(tmp_path, full)
    assert "TMPDIR" in (failed.value.hint or "")
    assert disk_fails(failed.value) is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_or_quota_of_the_build_cache_has_a_hint(number: int) -> None:
    assert "free some disk space" in (space_hint(OSError(number, "full")) or "")
    assert space_hint(OSError(errno.EACCES, "denied")) is None
