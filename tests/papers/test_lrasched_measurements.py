"""Real measurements as profiles: small files by hand, and the whole ones where there are any."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from tvwrl.papers.lrasched.cells import read_erms, read_nginx
from tvwrl.types import InputError

BATCH = Path(os.environ.get("TVWRL_REAL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "batch"
ERMS = """app,success,inflection,accy,a1,b1,a2,b2,tag,cpuInter,memInter
x,True,10,0.9,10,0,100,-900,t,0.25,500
x,True,5,0.9,20,0,200,-1000,t,0.25,1000
x,True,20,0.9,1,90,1,90,u,0.25,500
x,False,,,,,,,u,0.25,1000
x,True,20,0.9,1,-90,1,90,u,0.5,500
"""


def test_erms_by_hand(tmp_path):
    """t at its load 10: 100 us undisturbed, 200 x 10 - 1000 = 1000 us above the inflection of the other cell; u at its
    load 20: 110 us; a cell without a fit and one below 0 are left out."""
    path = tmp_path / "e.csv.gz"
    path.write_bytes(gzip.compress(ERMS.encode()))
    found = read_erms(path)
    assert found.applications == ("t", "u")
    assert found.configurations == ("cpu 0.25 mem 500", "cpu 0.25 mem 1000")
    assert found.grid() == pytest.approx(np.array([[1, 0], [1 - np.log(1.1) / np.log(10), np.nan]]), nan_ok=True)


def test_nginx_by_hand(tmp_path):
    head = "campaign,Replicas,Interference_Name,Interference_ID,Given_RPS,P99_Latency\n"
    rows = ["c,1,none,0,100,1", "c,1,cpu,11,100,10", "c,1,mixed,51,100,99", "c,two,none,0,100,2"]  # the last lacks cpu
    path = tmp_path / "n.csv"
    path.write_text(head + "\n".join(rows) + "\n")
    found = read_nginx(path)
    assert found.applications == ("c 1 100",)
    assert found.configurations == ("none", "cpu")
    assert found.performance.tolist() == [1.0, 0.0]
    path.write_text(head.replace("P99_Latency", "P98"))
    with pytest.raises(InputError, match="no column 'P99_Latency'"):
        read_nginx(path)


@pytest.mark.real_data
@pytest.mark.skipif(not BATCH.is_dir(), reason="no real data")
def test_the_whole_files():
    erms, nginx = read_erms(BATCH / "erms_inflection.csv.gz"), read_nginx(BATCH / "ntua_nginx_ibench.csv.gz")
    assert (len(erms.applications), len(erms.configurations), len(erms)) == (34, 46, 591)
    assert (len(nginx.applications), len(nginx.configurations), len(nginx)) == (113, 15, 113 * 15)
    for one in (erms, nginx):
        assert one.performance.min() == 0
        assert one.performance.max() == 1
