"""What every command that reproduces a figure offers."""

from typing import get_args, get_type_hints

from tvwrl.papers import commands


def test_presets_have_the_same_names_everywhere() -> None:
    presets = {name: get_type_hints(command).get("preset") for name, command in commands().items()}
    found = {name: get_args(preset) for name, preset in presets.items() if preset is not None}
    assert {"provisioning-fig3", "aladdin-fig10", "pism-fig12", "fig4"} <= found.keys()
    assert set(found.values()) == {("smoke", "medium", "paper")}
