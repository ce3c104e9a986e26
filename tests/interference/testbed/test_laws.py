"""Laws of response times: by hand, at their anchors, and fitted to planted curves and to the measurements."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.interference.law_fitting import fit_curve, fit_erms, fit_nginx, fit_taobench, held_out
from tvwrl.interference.testbed import laws
from tvwrl.interference.testbed.laws import LAWS, Curve, Law, Means, Pressures, anchored
from tvwrl.types import InputError

BATCH = Path(os.environ.get("TVWRL_REAL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "batch"


def pressures(**given):
    shape = next(iter(given.values())).shape
    return Pressures(**{name: given.get(name, np.ones(shape)) for name in Pressures._fields})


def test_a_law_by_hand():
    law = Law("l", "", (("cpu", Curve(2.0, 0.1, 0.5)), ("cache", Curve(1.0, 1.0, 0.0))), at_mean=2.0)
    seen = pressures(cpu=np.array([[0.3, 0.6]]), cache=np.array([[1.0, 3.0]]))
    mean = Means(1.0, 2.0, 1.0, 0.3)
    # cpu is 2 and 4 units: 0.2 and 0.2 + 2 x 0.5; cache 1 and 3 units: 1 and 1
    assert law.slowdown(seen, mean) == pytest.approx(np.array([[1.2, 2.2]]))
    assert law.scaled(0.5).slowdown(seen, mean) == pytest.approx(np.array([[0.1 + 0.5, 0.2 + 1.0]]))


def test_the_control_sees_total_cpu_alone_and_the_others_do_not():
    rng = np.random.default_rng(0)
    mean, cpu = Means(1.0, 1.0, 1.0, 1.0), np.full((1, 6), 0.7)
    seen = pressures(cpu=cpu, **{name: rng.uniform(0, 3, (1, 6)) for name in ("bandwidth", "cache", "queue")})
    assert np.ptp(LAWS["control"].slowdown(seen, mean)) == 0.0
    assert all(np.ptp(LAWS[name].slowdown(seen, mean)) > 0.1 for name in ("memory", "queue"))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.floats(0.01, 1.0), st.floats(1.25, 3.0), st.floats(1.0, 500.0))
def test_anchored_services_have_the_quantiles_asked_for(seed, spread, ratio, low):
    slow = 0.5 * np.exp(spread * np.random.default_rng(seed).normal(size=2000))
    base, sensitivity, noise = anchored(slow, low, ratio * low)
    assert base > 0
    assert 0 <= sensitivity <= laws.MOST_SENSITIVE
    assert noise >= laws.NOISE
    times = base * (1 + sensitivity * slow) * np.exp(noise * np.random.default_rng(1).normal(size=slow.size))
    found = np.quantile(times, [0.1, 0.9])
    assert found == pytest.approx([low, ratio * low], rel=0.12)


@settings(max_examples=20, deadline=None)
@given(st.floats(1.2, 6.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_planted_curve_is_found(knee, below, above):
    pressure = np.arange(1.0, 9.0)
    planted = Curve(knee, below, above).at(pressure)
    assert fit_curve(pressure, planted).at(pressure) == pytest.approx(planted, abs=0.03)


def test_points_that_a_curve_was_not_shown():
    pressure = np.array([1.0, 2.0, 3.0, 4.0])
    assert held_out(pressure, 0.1 * pressure) == pytest.approx(np.zeros(4), abs=1e-9)
    # the last point is a jump that a line through the others, 0.1 each, does not foretell: 0.4 - 1
    assert held_out(pressure, np.array([0.1, 0.2, 0.3, 1.0]))[3] == pytest.approx(-0.6)


def test_how_hard_instances_press_rises_with_memory_and_is_not_told_by_it():
    memory = np.repeat([0.1, 1.0], 20_000)
    found = np.log(laws.intensities(memory, np.random.default_rng(0))).reshape(2, -1)
    assert np.diff(found.mean(axis=1))[0] == pytest.approx(laws.ELASTICITY * np.log(10), abs=0.03)
    assert found.std(axis=1) == pytest.approx(np.full(2, laws.TRAIT), abs=0.02)


def test_a_file_without_what_is_fitted_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("offline_type,offline_label,p99_slowdown\nibench_membw,w2,1.1\n")
    with pytest.raises(InputError, match="1 rows of offline_type 'ibench_membw': must be at least 3"):
        fit_taobench(tmp_path / "t.csv")
    (tmp_path / "e.csv").write_text("a\n1\n")
    with pytest.raises(InputError, match="no column 'success'"):
        fit_erms(tmp_path / "e.csv")


@pytest.mark.real_data
@pytest.mark.skipif(not BATCH.is_dir(), reason="the measurements are not here")
def test_the_curves_that_are_kept_are_those_that_are_fitted():
    taobench, nginx = fit_taobench(BATCH / "taobench_colocation.csv"), fit_nginx(BATCH / "ntua_nginx_ibench.csv.gz")
    fitted = (taobench["bandwidth"], taobench["cache"], nginx["cpu"], nginx["bandwidth"])
    kept = (laws.TAOBENCH_BANDWIDTH, laws.TAOBENCH_CACHE, laws.NGINX_CPU, laws.NGINX_BANDWIDTH)
    for found, written in zip(fitted, kept, strict=True):
        assert tuple(found) == pytest.approx(tuple(written), rel=2e-3)
    slowed = fit_erms(BATCH / "erms_inflection.csv.gz")
    assert (np.median(slowed), np.log(slowed).std(ddof=1)) == pytest.approx(laws.ERMS_SENSITIVITY, rel=5e-3)
