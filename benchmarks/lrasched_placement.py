"""Milliseconds to place one application by LRASched, by cluster size and dimensions. Limit: 1 ms at 10,000 x 6."""

from __future__ import annotations

from tvwrl.bench.lrasched_latency import SIZES, TIMED, growth, latencies
from tvwrl.markdown import markdown_table


def main() -> None:
    """Measure, print a table."""
    lines = []
    for dimensions in (3, 6):
        rows = latencies(dimensions, SIZES, seed=0, milp_seconds=0.0)
        for scheme in TIMED:
            ms = [f"{row['ms']:.3g}" for row in rows if row["scheme"] == scheme]
            lines.append([f"{scheme}, D = {dimensions}", *ms, f"{growth(rows, scheme):.2f}"])
    print(markdown_table(["ms per application", *(f"{machines:,}" for machines in SIZES), "exponent"], lines))


if __name__ == "__main__":
    main()
