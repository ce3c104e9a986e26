"""A Prometheus server for tests of serving."""

import pytest

from tests.serve.fake_prometheus import FakePrometheus, RunningPod


@pytest.fixture(scope="module")
def prometheus():
    """A `FakePrometheus` with nodes a to d (1,000 cores, 4,000 GiB: never full), two pods on each of a and b."""
    pods = [RunningPod(f"app-{i}", "ab"[i % 2]) for i in range(4)]
    fake = FakePrometheus(dict.fromkeys("abcd", (1000, 4000)), pods)
    yield fake
    fake.close()
