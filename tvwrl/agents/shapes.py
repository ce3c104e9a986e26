"""What a policy must know of the environment that it is made for, and where else it can play; needs no PyTorch."""

from __future__ import annotations

from typing import Any

from tvwrl.simulation import Scenario, Simulation

# Scenario fields that change observations or actions; forecasts and peaks have the same width but differ in meaning
# fmt: off
SHOWN = (
    "observe_request", "observe_demand", "observe_forecast", "observe_peak", "hold_action", "choose_from_queue",
)
# fmt: on


def shapes_of(simulation: Simulation) -> dict[str, Any]:
    """What a policy network must know of its environment: grid (M, D, h, C), queue (Q, F), classes, actions, places
    of the queue that they choose from, peak_units, whether demand is in whole units, and how many numbers the queue
    `shows` of requests (2 D), demand (D) and forecasts (K).
    """
    scenario, resources = simulation.scenario, simulation.machines.capacity.shape[1]
    expected = simulation.observation().get("forecast")
    return {
        "grid": list(simulation.seen_grid.shape[1:]),
        "queue": list(simulation.state.seen_queue.shape[1:]),
        "classes": simulation.sequences.classes,
        "actions": simulation.actions,
        "places": scenario.places,
        "peak_units": scenario.peak_units,
        "whole": scenario.quantise,
        "shows": {
            "request": 2 * resources * scenario.observe_request,
            "demand": resources * scenario.observe_demand,
            "forecast": 0 if expected is None else expected.shape[2],
        },
    }


def environment_signature(shapes: dict[str, Any], scenario: Scenario) -> dict[str, Any]:
    """What must be the same in the environments that a policy is trained and used in; `shapes`: see `shapes_of`."""
    machines, resources, history, columns = shapes["grid"]
    return {
        "machines": machines,
        "resources": resources,
        "history": history,
        "capacity": columns,
        "queue": shapes["queue"][0],
        "classes": shapes["classes"],
        "peak_units": shapes["peak_units"],
        **{name: getattr(scenario, name) for name in SHOWN},
        "queue features": shapes["queue"][1],
    }
