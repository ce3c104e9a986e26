"""What every command that reproduces a figure offers."""

from typing import get_args, get_type_hints

from tvwrl.papers import command, titles


def test_presets_have_the_same_names_everywhere() -> None:
    names = [name for figures in titles().values() for name in figures]
    presets = {name: get_type_hints(command(name)).get("preset") for name in names}
    found = {name: get_args(preset) for name, preset in presets.items() if preset is not None}
    assert {"provisioning-fig3", "aladdin-fig10", "pism-fig12", "fig4"} <= found.keys()
    assert set(found.values()) == {("smoke", "medium", "paper")}
