"""tvwrl reproduce: how long DeepRM is trained, from the command line to the list of cells."""

import re


def test_deeprm_is_trained_as_its_preset_says_unless_asked_otherwise(call, refused, tmp_path):
    def listed(*arguments):
        done = call("reproduce", *arguments, "--seeds", 0, "--out", tmp_path / "runs", "--dry-run")
        return dict(re.findall(r"^\| *(\S+)/training *\| *0 of (\d+) iterations *\|", done.stdout, re.MULTILINE))

    figure = listed("fig4")
    assert (figure["google-deeprm-seed0"], figure["google-tvw-rl-seed0"]) == ("200", "30")
    table = listed("results", "--traces", "google", "--agents", "agent", "--iterations", 7)
    assert table == {"google-deeprm-seed0": "7", "google-tvw-rl-seed0": "7"}
    asked = listed("fig4", "--preset", "smoke", "--deeprm-iterations", 9)
    assert (asked["google-deeprm-seed0"], asked["google-tvw-rl-seed0"]) == ("9", "6")
    refused("reproduce", "fig5", "--deeprm-iterations", 0, message=["iterations is 0"])
