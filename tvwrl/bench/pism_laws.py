"""What the laws of the simulation were fitted to: measured slowdowns (real) beside the fitted curves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.bench.figures import write_figure
from tvwrl.interference import laws
from tvwrl.interference.law_fitting import fit_erms, fit_nginx, fit_taobench
from tvwrl.markdown import markdown_table
from tvwrl.types import InputError

NAMES = {"laws": "no figure, but the laws of the simulation fitted to measured response times"}
FILES = ("taobench_colocation.csv", "ntua_nginx_ibench.csv.gz", "erms_inflection.csv.gz")
KEPT = {
    ("TaoBench, P99", "bandwidth"): laws.TAOBENCH_BANDWIDTH,
    ("TaoBench, P99", "cache"): laws.TAOBENCH_CACHE,
    ("nginx, mean", "cpu"): laws.NGINX_CPU,
    ("nginx, mean", "bandwidth"): laws.NGINX_BANDWIDTH,
}


@dataclass(frozen=True)
class LawSettings:
    """Measured slowdowns under interference, real."""

    data: Path | None = None
    """Folder with taobench_colocation.csv, ntua_nginx_ibench.csv.gz and erms_inflection.csv.gz."""

    def reproduce(self, name: str, out: Path) -> str:
        """Markdown, which is written to a folder `laws` of `out` too. Raises InputError for missing files."""
        if self.data is None:
            raise InputError(f"data is not given: must be the folder with {', '.join(FILES)}")
        taobench, nginx, erms = (self.data / file for file in FILES)
        fitted = {("TaoBench, P99", kind): curve for kind, curve in fit_taobench(taobench).items()}
        fitted |= {("nginx, mean", kind): curve for kind, curve in fit_nginx(nginx).items()}
        slowed = fit_erms(erms)
        rows: list[dict[str, Any]]
        rows = [{"service": s, "pressure": kind} | curve._asdict() for (s, kind), curve in fitted.items()]
        lines = []
        for key, curve in fitted.items():
            kept = KEPT.get(key)
            lines.append([*key, *(f"{x:.3f}" for x in curve), ", ".join(f"{x:.4g}" for x in kept) if kept else "none"])
        head = ["service", "pressure", "knee", "slope below", "slope above", "kept in the laws"]
        median, scatter = float(np.median(slowed)), float(np.log(slowed).std(ddof=1))
        text = (
            f"# Laws of the simulation, fitted to measurements (real)\n\nSlowdown - 1 per worker (TaoBench) or pod "
            f"(nginx).\n\n{markdown_table(head, lines)}\n\nErms: {len(slowed)} microservices are "
            f"slowed by {median:.2f} (median), standard deviation of the logarithm {scatter:.2f}; kept: "
            f"{laws.ERMS_SENSITIVITY[0]:g} and {laws.ERMS_SENSITIVITY[1]:g}.\n"
        )
        rows.append({"service": "Erms", "pressure": "all", "median": median, "log_deviation": scatter})
        write_figure(out / name, text, rows, {}, asdict(self))
        return text
