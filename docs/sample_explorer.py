"""Writes the sample explorer of the site: `python docs/sample_explorer.py docs/_build/html/explorer-sample.html`."""

import sys

import tvwrl

SCHEDULERS = ["best-fit-peak", "spread", "expected-cost"]

if __name__ == "__main__":
    tvwrl.evaluate(SCHEDULERS, "synthetic:google", sequences=2, bounds=False).explore(sys.argv[1])
