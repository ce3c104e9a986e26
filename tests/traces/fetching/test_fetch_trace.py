"""Which files of a published trace are fetched, and the script."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.traces.fetching.conftest import ZIP
from tvwrl.traces import http_download
from tvwrl.traces.fetch_trace import FetchOptions, split_cell
from tvwrl.traces.publishers import PUBLISHERS
from tvwrl.types import InputError

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_only_the_first_part_unless_more_are_asked_for(get, site, tmp_path, messages):
    usage = [f"task_usage/part-{part:05d}-of-00500.csv.gz" for part in range(4)]
    machines = "machine_events/part-00000-of-00001.csv.gz"
    site.files |= dict.fromkeys([machines, *usage], b"rows")
    tables = ["machine_events", "task_usage"]
    assert get("google2011", tables) == [tmp_path / "raw" / path for path in (machines, usage[0])]
    assert any("only the first part of task_usage; give --parts" in line for line in messages)
    wanted = [tmp_path / "raw" / path for path in (machines, usage[0], usage[2], usage[3])]
    assert get("google2011", tables, parts="2-3, 0") == wanted


def test_all_parts_of_a_table_of_unknown_length_end_where_the_server_ends(get, site, tmp_path):
    shards = [f"clusterdata_2019_b/instance_usage-{part:012d}.json.gz" for part in range(3)]
    site.files |= dict.fromkeys(shards, b"rows")
    paths = get("google2019", ["instance_usage"], parts="all", cell="b")
    assert paths == [tmp_path / "raw" / path for path in shards]
    assert paths[0].parent == FetchOptions("google2019", cell="b", out=tmp_path / "raw").source
    with pytest.raises(InputError, match=r"instance_usage-000000000003.json.gz: HTTP 404"):
        get("google2019", ["instance_usage"], parts="0-3", cell="b")
    with pytest.raises(InputError, match=r"instance_events-000000000000.json.gz: HTTP 404"):
        get("google2019", ["instance_events"], parts="all", cell="b")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("borg", {}, "unknown trace 'borg': .*google2011.*bitbrains, tianchi"),
        ("tianchi", {}, "with an account.*tvwrl prepare tianchi --source FILE"),
        ("google2011", {"tables": ["usage"]}, "no table 'usage': .*task_usage"),
        ("google2011", {"parts": "500"}, "parts 0-499, counted from 0: there is no part 500"),
        ("google2019", {"parts": "0-99999999999"}, "there is no part 99999999999"),
        ("google2011", {"parts": "3-1"}, "must be like 0-9"),
        ("google2011", {"parts": "1-"}, "must be like 0-9"),
        ("google2011", {"parts": ""}, "must be like 0-9"),
        ("google2011", {"parts": "-1"}, "must be like 0-9"),
        ("bitbrains", {"parts": "0-3"}, "not published in parts"),
        ("google2019", {"cell": "z"}, "cell is 'z': must be one of a, b"),
        ("google2011", {"cell": "a"}, "cell is 'a': must be left out"),
        ("bitbrains", {"base_url": "ftp://host"}, "base URL is 'ftp://host'"),
        ("bitbrains", {"base_url": "http://host:port"}, "must be like https://host/folder"),
        ("bitbrains", {"base_url": "mirror"}, "must be like https://host/folder"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_asked(get, site, tmp_path, name, options, message):
    with pytest.raises(InputError, match=message):
        get(name, **({"tables": ()} | options))
    assert site.requests == []
    assert not (tmp_path / "raw").exists()


@pytest.mark.parametrize("name", PUBLISHERS)
def test_publishers_are_well_formed(name):
    publisher = PUBLISHERS[name]
    assert publisher.base.startswith("https://")
    assert publisher.base.endswith("/")
    for table in publisher.tables.values():
        names = [table.names(part, "a") for part in range(table.parts or 2)]
        assert len(set(names)) == len(names)
        assert not any("{" in path or path.startswith("/") for pair in names for path in pair)
    assert set(publisher.sha256) <= {table.names(0, "")[1] for table in publisher.tables.values()}


def test_the_publishers_own_address_has_the_publishers_names(get, site, tmp_path, monkeypatch):
    own = replace(PUBLISHERS["azure2019"], base=f"{site.url}/", checksums="")
    monkeypatch.setitem(PUBLISHERS, "azure2019", own)
    readings = "vm_cpu_readings-file-195-of-195.csv.gz"
    site.files["trace_data_vmtable_vmtable.csv.gz"] = b"vms"
    site.files[f"trace_data_vm_cpu_readings_{readings}"] = b"readings"
    paths = get("azure2019", ["vmtable", "vm_cpu_readings"], parts="194", base_url=site.url)
    assert paths == [tmp_path / "raw" / "vmtable" / "vmtable.csv.gz", tmp_path / "raw" / "vm_cpu_readings" / readings]
    assert [path.read_bytes() for path in paths] == [b"vms", b"readings"]


def test_the_address_of_a_cell():
    assert split_cell("google2019", "https://x.org/a/clusterdata_2019_c") == ("https://x.org/a/", "c")
    assert split_cell("google2019", "https://x.org/a") == ("https://x.org/a", None)
    assert split_cell("azure2019", "https://x.org/a") == ("https://x.org/a", None)


def test_the_script_fetches_and_says_how_to_go_on(call, site, tmp_path, monkeypatch):
    monkeypatch.setenv("TVWRL_DATA", str(tmp_path))
    done = call("fetch", "bitbrains", "--base-url", site.url)
    assert done.returncode == 0
    folder = tmp_path / "raw" / "bitbrains"
    assert sorted(path.name for path in folder.iterdir()) == [ZIP, "gwa_t_12_rnd.zip"]
    assert done.stdout.endswith(f"tvwrl prepare bitbrains --source {folder}\n")


def test_the_script_ends_with_code_2_and_one_clear_line(call, site, tmp_path, fetched):
    site.files.clear()
    done = call("fetch", "bitbrains", "--base-url", site.url, "--out", tmp_path / "raw")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"error: {site.url}/{ZIP}: HTTP 404")
    assert "Traceback" not in done.stderr
    assert fetched() == {}


def test_an_interrupted_script_says_how_to_go_on(call, site, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(http_download.Client, "fetch_file", stop)
    done = call("fetch", "bitbrains", "--base-url", site.url, "--out", tmp_path / "raw")
    assert done.returncode == 130
    hint = f"run the same command again to continue; the downloaded part is in {tmp_path / 'raw'}\n"
    assert done.stderr.endswith(hint + "interrupted\n")


def test_a_mirror_without_checksums_is_reported(get, site, messages):
    get()
    assert f"{site.url}/SHA256SUM: no checksums there (HTTP 404): only sizes are checked" in messages
    assert not any("--base-url" in line for line in messages)


def test_the_documentation_lists_the_files_that_are_asked_for():
    page = (DOCS / "reference" / "loaders.md").read_text()
    for name, publisher in PUBLISHERS.items():
        for table in publisher.tables.values():
            local, _ = table.names(0, publisher.cells[:1])
            assert f"`{local}`" in page, (name, local)
