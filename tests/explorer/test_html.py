"""The explorer's file, without a browser."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tvwrl.explorer.html import write_explorer

Tree = dict[str, Any]


@pytest.fixture(scope="module")
def page(made_up: Callable[..., Tree], write: Callable[..., Path]) -> str:
    return write(
        [made_up(0), made_up(1)], title="a </title><script>alert(1)</script> /*style*/<!--body--> folder"
    ).read_text()


def test_only_the_page_s_own_scripts_may_run(page: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert len(hashes) == 2
    assert re.findall(r"'sha256-([^']*)'", policy[1]) == hashes
    assert "http-equiv" in page[: page.index("<script")]


def test_the_title_is_text(page: str) -> None:
    assert (
        "<title>a &lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt; /*style*/&lt;!--body--&gt; folder</title>" in page
    )


def test_data_are_one_element_each_that_is_no_markup(page: str) -> None:
    found = re.findall(r'<script type="application/octet-stream" id="([^"]*)">([A-Za-z0-9+/=]*)</script>', page)
    assert [name for name, _ in found] == ["index", "sequence-0", "sequence-1"]
    whole = gzip.decompress(base64.b64decode(found[0][1]))
    index = json.loads(whole[4 : 4 + int.from_bytes(whole[:4], "little")])
    assert index["kind"] == "episodes"


def test_the_licence_of_what_is_bundled_is_in_the_page(page: str) -> None:
    assert "Copyright (c) 2022 Leon Sorokin" in page
    assert "Permission is hereby granted" in page


def test_a_file_is_whole_or_as_it_was(made_up: Callable[..., Tree], write: Callable[..., Path]) -> None:
    file = write([made_up(0)])
    before = file.read_bytes()

    def interrupted() -> Iterator[Tree]:
        yield made_up(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_explorer(file, {"kind": "episodes", "title": "another"}, interrupted())
    assert file.read_bytes() == before
    assert [one.name for one in file.parent.iterdir()] == ["explorer.html"]
