"""Compiled copying of training workloads into futures."""

from __future__ import annotations

from tvwrl.compiled import njit


@njit(_nrt=False)
def fill(demand, forecast, which, seen, present, slot, horizon, out_demand, out_forecast):  # type: ignore[no-untyped-def]
    """Write what training workloads needed, and their forecasts, from the last slot seen to the horizon.

    `demand`: (W, L, D) of all training workloads, `forecast`: (W, L + 1, K), or K = 0
    `which`: (F, n) training workloads and `seen`: (F, n) slots of them from which on they are needed
    `present`: how many of these are there; the others arrive in `slot` (F, n - present)
    `out_demand`: (F, N, L, D), `out_forecast`: (F, N, L + 1, K)
    """
    longest, columns = demand.shape[1], forecast.shape[2]
    for f in range(which.shape[0]):
        for i in range(which.shape[1]):
            if i >= present and slot[f, i - present] > 1 << 30:  # it does not arrive
                break
            w, first = which[f, i], seen[f, i]
            for k in range(first - 1, min(longest, first + horizon)):
                for d in range(demand.shape[2]):
                    out_demand[f, i, k, d] = demand[w, k, d]
            for k in range(first, min(longest, first + horizon) + 1 if columns else 0):
                for c in range(columns):
                    out_forecast[f, i, k, c] = forecast[w, k, c]
