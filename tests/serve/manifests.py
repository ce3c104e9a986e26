"""What is in deploy/, read."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tvwrl.serve.options import ServeSettings

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CONFIGURATIONS = ("scheduler-config.yaml", "scheduler-config-v1beta1.yaml")


def documents(name: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")) if one]


def only(name: str, kind: str) -> dict[str, Any]:
    (found,) = [one for one in documents(name) if one["kind"] == kind]
    return found


def pod_of(name: str) -> dict[str, Any]:
    return only(name, "Deployment")["spec"]["template"]["spec"]


def arguments() -> dict[str, str]:
    """Option -> value of the extender; "" for flags."""
    command, *options = pod_of("extender.yaml")["containers"][0]["args"]
    assert command == "serve"
    return dict(option.removeprefix("--").partition("=")[::2] for option in options)


def settings() -> ServeSettings:
    known = {one.name.replace("_", "-"): one for one in fields(ServeSettings)}
    values: dict[str, Any] = {}
    for option, text in arguments().items():
        name, kind = known[option].name, str(known[option].type)
        values[name] = True if not text else float(text) if "float" in kind else int(text) if "int" in kind else text
    return ServeSettings(**values)
