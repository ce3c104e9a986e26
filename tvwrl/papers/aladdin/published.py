"""Numbers that the text of paper 002 gives for its Figures 10 and 11, at 12,000 machines (Sections 4.2 and 4.3)."""

from __future__ import annotations

VIOLATIONS: dict[str, str] = {
    "Aladdin+H.2": "0",
    "Aladdin+H.4": "0",
    "Aladdin+H.8": "0",
    "Tetris.1": "almost 10,000",
    "Tetris.4": "331",
    "Graphene.1": "more than 8,000",
}
CPU_EFFICIENCY: dict[str, str] = {
    **{f"Aladdin+H.{groups}": "up to 42 %" for groups in (2, 4, 8)},
    "Tetris.1": "about 32 %",
    "Graphene.1": "about 32 %",
}
MEMORY_EFFICIENCY: dict[str, str] = {f"Aladdin+H.{groups}": "more than 65 %" for groups in (2, 4, 8)}
MINUTES: dict[str, str] = {
    "Aladdin+H.4": "nearly 4",
    "Aladdin+H.4(SRF)": "nearly 4",
    "Aladdin+H.2(SRF)": "more than 15",
}
MIGRATIONS: dict[str, str] = {"Aladdin+H.2(SRF)": "more than 2,000", "Aladdin+H.8(SRF)": "fewest"}
LATENCY: dict[str, str] = {
    **{f"Aladdin+H.{groups}": "below 1 s" for groups in (2, 4, 8)},
    **{f"Medea({w})": "above 1 s from 5,000 machines" for w in ("1,1,1", "1,0.5,0.5", "0.5,0.5,0.5")},
}
