"""Hashes of traces and test sequences, and units of penalty: what was measured when the tasks were frozen."""

from __future__ import annotations

TRACES = {  # `trace_hash` of each
    "google": "cee8f975c484dcca01f1be5e1c42ad63182ac9293e1b424200e802fb7d91fc55",
    "google2011": "f092aa43b2cb757f8b286381ce7b88faffd1cba5507226da0e5475936e59841f",
    "google2019": "322d4fe9f2f7cfcd2d1104098010a46dd67881f50895da921f5ac775ce512eca",
    "tianchi": "dc67e813dd6e369851d90761ede7cd70d9476b68d2fec6a9e9d2dbe8894f9f5c",
    "bitbrains": "92ec726726d937e43ed5bb63da6d13a86ab5d22b8f1803045ff113438f785ebf",
}

# Task -> hash of its test sequences, and the mean penalty of a decision of best-fit-peak on 20 training sequences (2 of
# 1,000 machines), rounded to two digits
FROZEN: dict[str, tuple[str, float]] = {
    "google-0.3-v0": ("1c1c709fb8ff54cf", 7_300.0),
    "google-0.5-v0": ("fb39852549f28521", 6_400.0),
    "google-0.8-v0": ("3f744dbf601b696a", 6_000.0),
    "google-0.5-burst-v0": ("fb3af43b3f77ab63", 7_400.0),
    "google-0.5-delay-v0": ("fb39852549f28521", 6_400.0),
    "google-0.5-large-v0": ("ce1300ef09574db9", 4_600.0),
    "google2011-0.3-v0": ("6b6b347db3dcca46", 7_500.0),
    "google2011-0.5-v0": ("7c0fe3845bac8b9a", 6_700.0),
    "google2011-0.8-v0": ("b210ace53f421560", 5_800.0),
    "google2011-0.5-burst-v0": ("b9ffb4dd12ef79de", 7_100.0),
    "google2011-0.5-delay-v0": ("7c0fe3845bac8b9a", 6_700.0),
    "google2011-0.5-large-v0": ("db0f4edad3c4b9bf", 4_200.0),
    "google2019-0.3-v0": ("7d532a078a52060d", 9_000.0),
    "google2019-0.5-v0": ("9038f474733a677c", 7_800.0),
    "google2019-0.8-v0": ("9e50d079d30bd19f", 7_800.0),
    "google2019-0.5-burst-v0": ("ec0e7692e35bff93", 8_500.0),
    "google2019-0.5-delay-v0": ("9038f474733a677c", 7_800.0),
    "google2019-0.5-large-v0": ("2b689d38fedb5554", 5_600.0),
    "tianchi-0.3-v0": ("7e6d49eec8f71b7b", 5_700.0),
    "tianchi-0.5-v0": ("0f961cb251a78c31", 5_100.0),
    "tianchi-0.8-v0": ("6d2926339d71a77d", 4_200.0),
    "tianchi-0.5-burst-v0": ("6a45932eb671ca9a", 5_500.0),
    "tianchi-0.5-delay-v0": ("0f961cb251a78c31", 5_100.0),
    "tianchi-0.5-large-v0": ("2085e9ecf3153ed3", 3_500.0),
    "bitbrains-0.3-v0": ("6b8aee3239eb6f3a", 19_000.0),
    "bitbrains-0.5-v0": ("5431c1770fc7f42a", 18_000.0),
    "bitbrains-0.8-v0": ("36357625fa5eaf81", 21_000.0),
    "bitbrains-0.5-burst-v0": ("27a552da42360aea", 19_000.0),
    "bitbrains-0.5-delay-v0": ("5431c1770fc7f42a", 18_000.0),
    "bitbrains-0.5-large-v0": ("d7417d6a6e4d9e21", 15_000.0),
}
