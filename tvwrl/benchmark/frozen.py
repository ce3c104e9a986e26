"""Hashes of traces and test sequences, and penalty units, as measured when the tasks were frozen."""

from __future__ import annotations

TRACES = {  # `trace_hash` of each
    "google": "cee8f975c484dcca01f1be5e1c42ad63182ac9293e1b424200e802fb7d91fc55",
    "google2011": "f092aa43b2cb757f8b286381ce7b88faffd1cba5507226da0e5475936e59841f",
    "google2019": "322d4fe9f2f7cfcd2d1104098010a46dd67881f50895da921f5ac775ce512eca",
    "tianchi": "dc67e813dd6e369851d90761ede7cd70d9476b68d2fec6a9e9d2dbe8894f9f5c",
    "bitbrains": "92ec726726d937e43ed5bb63da6d13a86ab5d22b8f1803045ff113438f785ebf",
}

# Task -> hash of its test sequences, and the mean penalty per decision of best-fit-peak on training sequences, rounded
# to two digits; benchmarks/freeze_tasks.py prints both
FROZEN: dict[str, tuple[str, float]] = {
    "google-0.3-v0": ("442540c42893e285", 7_300.0),
    "google-0.5-v0": ("6c166446d1f669d1", 6_400.0),
    "google-0.8-v0": ("25b31a01d6dc9b1c", 6_000.0),
    "google-0.5-burst-v1": ("aa97b4e46a9ee531", 54_000.0),
    "google-0.5-delay-v1": ("4f592b308c4d5805", 54_000.0),
    "google-0.5-v1": ("e9639039081acbbb", 6_400.0),
    "google-0.5-burst-v0": ("21560bd91f8a267a", 7_400.0),
    "google-0.5-delay-v0": ("21560bd91f8a267a", 7_400.0),
    "google-0.5-large-v0": ("83c076aff94873fa", 4_600.0),
    "google2011-0.3-v0": ("aa5f4f9d2f0f1624", 7_500.0),
    "google2011-0.5-v0": ("c67d91cf5f55b123", 6_700.0),
    "google2011-0.8-v0": ("4904739ce162dbde", 5_800.0),
    "google2011-0.5-burst-v0": ("38327fae1f73bed5", 7_100.0),
    "google2011-0.5-delay-v0": ("38327fae1f73bed5", 7_100.0),
    "google2011-0.5-large-v0": ("c673a2ce64027245", 4_200.0),
    "google2019-0.3-v0": ("00e99aab5318d58b", 9_000.0),
    "google2019-0.5-v0": ("2d2c72bc142f54e0", 7_800.0),
    "google2019-0.8-v0": ("94d2d7031466846e", 7_800.0),
    "google2019-0.5-burst-v0": ("bd6c47393fa9e2b8", 8_500.0),
    "google2019-0.5-delay-v0": ("bd6c47393fa9e2b8", 8_500.0),
    "google2019-0.5-large-v0": ("5c9ab1bc83e981f5", 5_600.0),
    "tianchi-0.3-v0": ("c4dece8463788eb9", 5_700.0),
    "tianchi-0.5-v0": ("40e786cc3d4980cc", 5_100.0),
    "tianchi-0.8-v0": ("e6cde31419059e2c", 4_200.0),
    "tianchi-0.5-burst-v0": ("f3e8982505e23157", 5_500.0),
    "tianchi-0.5-delay-v0": ("f3e8982505e23157", 5_500.0),
    "tianchi-0.5-large-v0": ("8d945514a767cb3a", 3_500.0),
    "bitbrains-0.3-v0": ("3cc300aded35ed5c", 19_000.0),
    "bitbrains-0.5-v0": ("a1f5cb1adce7892a", 18_000.0),
    "bitbrains-0.8-v0": ("e17a51f3ae96335f", 21_000.0),
    "bitbrains-0.5-burst-v0": ("66622a86a17b66a4", 19_000.0),
    "bitbrains-0.5-delay-v0": ("66622a86a17b66a4", 19_000.0),
    "bitbrains-0.5-large-v0": ("718adc8d68e125cc", 15_000.0),
}
