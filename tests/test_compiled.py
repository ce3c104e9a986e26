"""The kernel cache, filled by several processes at once."""

import subprocess
import sys

import tvwrl.compiled

FILL = """
import sys
from numba.core.caching import IndexDataCacheFile
import tvwrl.compiled
for k in range(40):
    IndexDataCacheFile(sys.argv[1], "kernel", "stamp").save((sys.argv[2], k), f"code of {sys.argv[2]}, {k}")
"""


def test_every_process_finds_its_own_code_again(tmp_path):
    fillers = [subprocess.Popen([sys.executable, "-c", FILL, tmp_path, name]) for name in "abc"]
    assert [filler.wait() for filler in fillers] == [0, 0, 0]
    cache = tvwrl.compiled.IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    for name in "abc":
        for k in range(40):
            assert cache.load((name, k)) == f"code of {name}, {k}"
