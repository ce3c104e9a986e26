"""Does `tvwrl serve` schedule the pods of a real Kubernetes? Starts one, runs every check, prints a table.

python -m e2e.run [--policy best-fit] [--only steady holds ...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from e2e import holds, load, plans, rebalance, steady, throughput, trouble, variants
from e2e.processes import Failure
from e2e.report import Report
from e2e.setting import DEFAULT_POLICY, Setting

NODES = 200
PARTS: dict[str, Callable[[Setting, Report], None]] = {
    "steady": steady.run,
    "herd": variants.herd,
    "rebuilt": variants.rebuilt,
    "holds": holds.run,
    "whole-nodes": variants.whole_nodes,
    "shadow": variants.shadow,
    "binding": variants.binding,
    "trouble": trouble.run,
    "throughput": throughput.run,
    "rebalance": rebalance.run,
    "plans": plans.run,
}


def main() -> int:
    """0 if everything held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--policy", default=DEFAULT_POLICY, help="what tvwrl serve decides by: a rule, RUN or FILE.onnx"
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to run")
    options = parser.parse_args()
    report = Report()
    try:
        with Setting(load.nodes(NODES), policy=options.policy) as setting:
            report.say(f"{NODES} nodes; tvwrl serve --policy {options.policy}; logs in {setting.folder}")
            for name in options.only:
                _part(name, setting, report)
            report.measure("memory of tvwrl serve", f"{setting.extender.memory() / 2**20:.0f} MiB")
            if not report.held:
                raise Failure("not everything held")
    except Failure as failure:
        print(f"e2e: {failure}", file=sys.stderr)
    except KeyboardInterrupt:
        print("e2e: interrupted", file=sys.stderr)
        return 130
    print(report.table())
    return 0 if report.held else 1


def _part(name: str, setting: Setting, report: Report) -> None:
    """One part in an empty cluster with extender and scheduler running; what goes wrong does not stop the others."""
    try:
        setting.schedule()
        PARTS[name](setting, report)
    except (Failure, OSError) as failure:
        report.check(f"{name}: ran to its end", False, str(failure))
    try:
        setting.closed()
        setting.settle()
        setting.empty()
    except (Failure, OSError) as failure:
        report.check(f"{name}: the cluster could be emptied", False, str(failure))


if __name__ == "__main__":
    sys.exit(main())
