"""Readers of batch tasks: small files by hand, bad rows, and the whole files where they are at hand."""

import gzip
from collections import Counter

import numpy as np
import pytest

from tvwrl.interference.batch_tasks import read_arrivals, read_usage
from tvwrl.types import InputError

HEAD = "job,task,instances,start_time,end_time,mean_inst_duration,plan_cpu,plan_mem,cpu_sum_pct,mem_sum,"
USAGE = HEAD + "cpu_per_inst_cores,mem_per_inst\nb,M1,4,30,60,8.5,50,0.3,400,1,1.0,0.25\n"
ARRIVALS = "arrive_s,job,task,duration_s,plan_cpu,plan_mem,instances\n5,a,R2_1,7,100,0.5,3\n0,a,M1,0,50,0.2,1\n"


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_files_by_hand(tmp_path):
    tasks = read_usage(write(tmp_path / "u.csv.gz", USAGE))
    assert (tasks.job[0], tasks.task[0], tasks.seconds[0], tasks.instances[0]) == ("b", "M1", 30.0, 4)
    assert (tasks.plan_cpu[0], tasks.plan_memory[0]) == (0.5, 0.3)
    assert (tasks.cpu[0], tasks.memory[0], tasks.makespan[0]) == (1.0, 0.25, 8.5)
    tasks = read_arrivals(write(tmp_path / "a.csv.gz", ARRIVALS))
    assert tasks.task.tolist() == ["M1", "R2_1"]  # in order of submission
    assert tasks.makespan.tolist() == [0.0, 7.0]
    assert np.isnan(tasks.cpu).all()
    assert tasks.tag[0] == tasks.tag[1]
    assert tasks.role[0] != tasks.role[1]
    assert tasks.only(np.array([1])).job.tolist() == ["a"]


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("arrive_s", "when", "no column 'arrive_s'; the columns are: when"),
        ("5,a,R2_1,7,100,0.5,3", "5,a,R2_1,7,100,0.5,0", "row 1: instances is 0: must be a number >= 1"),
        ("0,a,M1,0,50,0.2,1", "0,a,M1,0,50,nan,1", "row 2: plan_mem is nan: must be a number > 0"),
        ("0,a,M1,0,50,0.2,1", "0,a,M1,0,fifty,0.2,1", "row 2: plan_cpu is fifty"),
        ("0,a,M1,0,50,0.2,1", "-1,a,M1,0,50,0.2,1", "row 2: arrive_s is -1"),
        ("0,a,M1,0,50,0.2,1", "0,,M1,0,50,0.2,1", "row 2: job is empty"),
        ("M1", "M1_1", "job a, task 'M1_1': waits for itself"),
        ("M1", "R2_1", "job a: task 'R2_1' appears twice"),
        ("5,a,R2_1,7,100,0.5,3\n0,a,M1,0,50,0.2,1\n", "", "no rows"),
    ],
)
def test_bad_files_are_refused(tmp_path, was, now, message):
    path = write(tmp_path / "a.csv.gz", ARRIVALS.replace(was, now))
    with pytest.raises(InputError) as error:
        read_arrivals(path)
    assert str(path) in str(error.value)
    assert message in str(error.value)


def test_bad_names_can_be_counted(tmp_path):
    """A second task 1 waits for none and is waited for by none; two tasks without a number are just two; R2 waits for
    a task 1 that nobody is."""
    bad = Counter()
    more = "0,a,M1,0,50,0.2,1\n0,b,task_x,0,50,0.2,1\n0,b,task_x,0,50,0.2,1\n0,c,M1__,0,50,0.2,1\n0,c,R2_1,0,50,0.2,1\n"
    tasks = read_arrivals(write(tmp_path / "a.csv.gz", ARRIVALS + more), bad)
    assert bad == {"same number": 1, "malformed": 1, "unknown": 1}
    roles = {(job, task): set() for job, task in zip(tasks.job, tasks.task, strict=True)}
    for job, task, role in zip(tasks.job, tasks.task, tasks.role, strict=True):
        roles[job, task].add(role)
    assert [len(roles[one]) for one in (("a", "M1"), ("a", "R2_1"), ("b", "task_x"))] == [2, 1, 1]
    assert roles["c", "M1__"] == roles["c", "R2_1"]


@pytest.mark.real_data
def test_the_whole_files(real_batch):
    """Rows and jobs as their notes say; the numbers of graphs are those that networkx finds by isomorphism."""
    usage = read_usage(real_batch / "ali18_usage_tasks.csv.gz")
    assert (len(usage), len(set(usage.job)), len(set(usage.tag))) == (22_409, 3_690, 178)
    arrivals = read_arrivals(real_batch / "spar_sample_tasks.csv.gz")
    assert (len(arrivals), len(set(arrivals.job)), len(set(arrivals.tag))) == (67_634, 16_749, 1_426)
    assert (np.diff(arrivals.seconds) >= 0).all()
