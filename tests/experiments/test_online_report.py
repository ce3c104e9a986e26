"""The comparison of online learning: thirds, what is ahead in the last, and the plot."""

import numpy as np

from tvwrl.experiments.online_report import online_table, plot_rewards, rewards_by_phase

REWARDS = [
    {"online": np.array([[-9.0], [-9], [-6], [-6], [-3], [-1]]), "frozen": np.full((6, 1), -6.0)},
    {"online": np.array([[-9.0], [-3]]), "frozen": np.array([[-9.0], [-9]])},
]


def cells(line):
    """The cells of a line of the table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_thirds_and_the_lead_in_the_last_by_hand():
    table = online_table(REWARDS, ["google", "bitbrains"])
    rows = [cells(line) for line in table.splitlines() if line.startswith(("| online", "| frozen"))]
    assert rows[0] == ["online", "-9.0", "-6.0", "-2.0", "", "", ""]
    assert rows[1] == ["frozen", "-6.0", "-6.0", "-6.0", "+4.0", "[+3.0, +5.0]", "2 of 2"]
    assert rows[3] == ["frozen", "-9.0", "-9.0", "", "+6.0", "", "1 of 1"]  # two episodes have no three thirds
    assert "### bitbrains, 2 episodes\n" in table


def test_plot_is_an_image(tmp_path):
    plot_rewards(REWARDS, ["google", "bitbrains"], tmp_path / "rewards.png")
    assert (tmp_path / "rewards.png").read_bytes().startswith(b"\x89PNG")


def test_episodes_of_seeds_stand_side_by_side():
    def rows(rewards):
        return [{"phase": "0", "episode": i, "scheduler": "online", "reward": str(r)} for i, r in enumerate(rewards)]

    assert rewards_by_phase([rows([1000, 2000]), rows([3000, 4000])])[0]["online"].tolist() == [[1, 3], [2, 4]]
