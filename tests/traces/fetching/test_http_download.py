"""Downloading one file whole from a server that does what it likes."""

import contextlib
import email.utils
import errno
import hashlib
import io
import time
from base64 import b64encode
from pathlib import Path
from unittest import mock

import pytest

from tests.traces.fetching.conftest import BODY, ZIP
from tvwrl.traces import http_download
from tvwrl.traces.http_requests import RetryPolicy
from tvwrl.types import InputError

SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.mark.parametrize("states_length", [True, False])
def test_a_file_appears_whole_and_is_not_fetched_again(get, site, tmp_path, fetched, messages, states_length):
    site.states_length = states_length
    assert get() == get() == [tmp_path / "raw" / ZIP]
    assert fetched() == {ZIP: BODY}
    assert site.asked(ZIP) == [None, None]  # the second time only for its size
    assert any("already there" in line for line in messages)


@pytest.mark.parametrize(("other", "sums"), [(b"short", None), (BODY[::-1], f"{SHA256}  {ZIP}\n".encode())])
def test_a_file_of_another_size_or_checksum_is_fetched_anew(get, site, tmp_path, fetched, other, sums):
    site.files |= {"SHA256SUM": sums} if sums else {}
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / ZIP).write_bytes(other)
    get()
    get()
    assert fetched() == {ZIP: BODY}
    assert len(site.asked(ZIP)) == (1 if sums else 3)  # without sums the size is asked for


def test_dropped_connections_are_resumed_where_they_broke(get, site, fetched, waits):
    site.faults[ZIP] = [("drop", 300_000), ("drop", 300_000), ("drop", 0), ("drop", 10)]
    get()
    assert fetched() == {ZIP: BODY}
    assert site.asked(ZIP) == [None, "bytes=300000-", "bytes=600000-", "bytes=600000-", "bytes=600010-"]
    assert waits == [1, 1, 2, 1], "only failures without a new byte lengthen the wait"


@pytest.mark.parametrize("missing", ["ranges", "tags"])
def test_a_server_that_cannot_resume_is_begun_anew(get, site, fetched, missing):
    setattr(site, missing, False)
    site.faults[ZIP] = [("drop", 300_000)]
    get()
    assert fetched() == {ZIP: BODY}
    assert site.asked(ZIP) == [None, None if missing == "tags" else "bytes=300000-"]


def test_a_server_without_ranges_that_always_drops_is_given_up(get, site):
    site.ranges = False
    site.faults[ZIP] = [("drop", 1000)] * 9
    with pytest.raises(InputError, match=r"closed after 1000 of 1048576 bytes, 4 times in a row"):
        get()


@pytest.mark.parametrize("heeds_if_range", [True, False])
@pytest.mark.parametrize("other", [BODY[::-1], b"short"])
def test_a_file_that_changes_between_tries_is_begun_anew(get, site, fetched, heeds_if_range, other):
    site.heeds_if_range = heeds_if_range
    site.faults[ZIP] = [("drop", 300_000)]
    get(retry={"sleep": lambda _: site.files.update({ZIP: other})})
    assert fetched() == {ZIP: other}


def test_an_interruption_leaves_a_part_to_resume_from(get, site, fetched):
    site.faults[ZIP] = [("drop", 300_000)]
    with pytest.raises(KeyboardInterrupt):
        get(retry={"sleep": mock.Mock(side_effect=KeyboardInterrupt)})
    assert fetched()[f"{ZIP}.part"] == BODY[:300_000]
    assert ZIP not in fetched()
    get()
    assert site.asked(ZIP) == [None, "bytes=300000-"]
    assert fetched() == {ZIP: BODY}


def test_a_part_that_was_complete_already_is_finished(get, site, tmp_path, fetched):
    site.faults[ZIP] = [("drop", 300_000), ("status", 404)]
    with pytest.raises(InputError):
        get()
    (tmp_path / "raw" / f"{ZIP}.part").write_bytes(BODY)
    get()
    assert fetched() == {ZIP: BODY}


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_passing_errors_of_the_server_are_tried_again(get, site, waits, status):
    site.faults[ZIP] = [("status", status)] * 3
    get()
    assert waits == [1, 2, 4]


def test_lasting_errors_of_the_server_are_given_up_with_the_url(get, site, fetched, waits):
    site.faults[ZIP] = [("status", 500)] * 9
    with pytest.raises(InputError, match=rf"{site.url}/{ZIP}: HTTP 500 .*, 9 times in a row; try again later"):
        get(retry={"attempts": 9})
    assert fetched() == {}
    assert waits == [1, 2, 4, 8, 16, 32, 64, 64]


@pytest.mark.parametrize("status", [400, 403, 404, 410])
def test_a_refusal_is_not_tried_again(get, site, waits, status):
    site.faults[ZIP] = [("status", status)] * 2
    with pytest.raises(InputError, match=rf"{site.url}/{ZIP}: HTTP {status} .*--base-url"):
        get()
    assert waits == []


@pytest.mark.parametrize("as_date", [False, True])
def test_the_wait_that_the_server_asks_for_is_kept(get, site, waits, as_date):
    asked = email.utils.formatdate(time.time() + 120, usegmt=True) if as_date else "120"
    site.faults[ZIP] = [("status", 503, {"Retry-After": asked})]
    get()
    assert waits == [pytest.approx(120, abs=3)]


def test_a_wait_that_is_too_long_ends_it(get, site, waits):
    site.faults[ZIP] = [("status", 429, {"Retry-After": "86400"})]
    with pytest.raises(InputError, match="try again in 86400 s"):
        get()
    assert waits == []


def test_a_server_that_hangs_times_out(get, site, fetched):
    site.faults[ZIP] = [("hang",)]
    get()
    assert fetched() == {ZIP: BODY}
    site.faults["gwa_t_12_rnd.zip"] = [("hang",)] * 2
    with pytest.raises(InputError, match=r"gwa_t_12_rnd.zip: timed out, 2 times in a row"):
        get(tables=["rnd"], retry={"attempts": 2, "timeout": 0.1})


def test_nobody_there(get, tmp_path):
    with pytest.raises(InputError, match=r"http://127.0.0.1:9/SHA256SUM: .*refused.*--base-url"):
        get(base_url="http://127.0.0.1:9")
    assert not (tmp_path / "raw").exists()


@pytest.mark.parametrize("prefix", ["", "*", "./", "bitbrains/"])
def test_a_published_checksum_is_verified(get, site, messages, prefix):
    site.files["SHA256SUM"] = f"{SHA256}  {prefix}{ZIP}\n".encode()
    get()
    assert any("sha256 as published" in line for line in messages)


def test_a_wrong_checksum_is_tried_once_more_and_then_named(get, site, fetched):
    stated = "0" * 64
    site.files["SHA256SUM"] = f"{stated}  {ZIP}\n".encode()
    with pytest.raises(InputError, match=rf"{site.url}/{ZIP}: sha256 is {SHA256}, but {stated} is published"):
        get()
    assert len(site.asked(ZIP)) == 2
    assert fetched() == {}


def test_a_body_that_was_wrong_once_is_repaired(get, site, fetched):
    site.files |= {"SHA256SUM": f"{SHA256}  {ZIP}\n".encode(), ZIP: BODY[::-1]}
    get(report=lambda line: site.files.update({ZIP: BODY}) if "is published" in line else None)
    assert fetched() == {ZIP: BODY}


@pytest.mark.parametrize("header", ["Content-MD5", "x-goog-hash"])
@pytest.mark.parametrize("good", [True, False])
def test_a_checksum_in_the_headers_is_verified(get, site, header, good):
    md5 = b64encode(hashlib.md5(BODY if good else b"").digest()).decode()
    site.headers[header] = md5 if header == "Content-MD5" else f"crc32c=AAAAAA==,md5={md5}"
    with contextlib.nullcontext() if good else pytest.raises(InputError, match=r"md5 is .*, but .* is published"):
        get()


def test_digests_of_a_release_are_read_from_its_description(site, messages):
    site.files["tags/v1"] = b'{"assets": [{"name": "a", "digest": "sha256:12"}, {"name": "b", "digest": null}]}'
    client = http_download.Client(messages.append, RetryPolicy())
    assert client.read_sums(f"{site.url}/tags/v1") == {"a": "12"}


def test_too_little_space_is_found_before_writing(get, monkeypatch, tmp_path):
    monkeypatch.setattr(http_download.shutil, "disk_usage", lambda _: mock.Mock(free=48_576))
    with pytest.raises(InputError, match=r"needs 1\.05MB, but 48\.6kB are free: make room for 1\.00MB"):
        get()
    assert not (tmp_path / "raw" / ZIP).exists()


def test_a_disk_that_fills_up_is_reported_with_what_is_missing(get, site, monkeypatch, fetched):
    opened = Path.open

    class Full(io.FileIO):
        def write(self, data):
            if self.tell() > 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    def open_full(path, mode="r", **options):
        return Full(path, mode) if mode == "ab" else opened(path, mode, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_full)
        with pytest.raises(InputError, match=rf"{ZIP}.part: disk full, 786kB of 1\.05MB are missing; make room"):
            get()
    assert ZIP not in fetched()
    get()
    assert site.asked(ZIP) == [None, "bytes=262144-"]
    assert fetched() == {ZIP: BODY}


def test_a_folder_that_cannot_be_made(get, tmp_path):
    (tmp_path / "raw").write_text("a file")
    with pytest.raises(InputError, match=r"raw.*--out"):
        get()
