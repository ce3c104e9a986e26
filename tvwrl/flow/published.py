"""What paper 002 prints: its machine types, its task types, and the numbers that its figures are told with."""

from __future__ import annotations

MIB_PER_GIB = 1024.0

# Table 3: cores, memory (the paper's "MB", 1,024 to the GiB), machines. They add up to 13,764, not to 12,000.
MACHINE_TYPES: tuple[tuple[int, int, int], ...] = (
    *((28, 80392, 1040), (32, 128952, 112), (40, 96517, 344), (32, 128740, 74), (16, 64266, 1152), (32, 129089, 84)),
    *((64, 257665, 212), (32, 96518, 84), (88, 354544, 1956), (40, 96683, 160), (36, 515820, 240), (56, 225531, 2604)),
    *((28, 112646, 868), (64, 258356, 320), (24, 64265, 88), (56, 160038, 3670), (84, 338160, 49), (32, 128739, 121)),
    *((64, 258360, 168), (32, 128713, 122), (64, 193716, 192), (56, 225705, 52), (56, 467436, 52)),
)

# Table 4: cores, memory, tasks. They add up to 116,414; the text speaks of 100,000 and of 120,000.
TASK_TYPES: tuple[tuple[int, int, int], ...] = (
    *((8, 16384, 30048), (4, 10240, 1966), (16, 32768, 2103), (4, 16384, 396), (8, 31744, 858), (32, 216753, 249)),
    *((32, 98304, 915), (1, 1024, 11629), (16, 65536, 1821), (4, 8192, 23345), (28, 110592, 765), (56, 204800, 3120)),
    *((4, 4096, 3012), (32, 128947, 2357), (8, 8192, 96), (28, 80000, 117), (8, 32768, 7827), (2, 976, 51)),
    *((16, 61440, 2868), (28, 79872, 2919), (4, 15360, 36), (16, 49152, 84), (16, 63488, 927), (2, 8192, 12302)),
    *((28, 112646, 3023), (32, 96256, 90), (6, 8192, 240), (8, 1024, 600), (28, 110000, 1512), (8, 128113, 334)),
    *((8, 24576, 804),),
)

MACHINES, REPLICAS = 12_000, 100_000  # of the evaluation (4.1, 4.2)
ANTI_AFFINITY, AFFINITY = 0.5, 0.2  # share of tasks with such constraints (4.1)
EXCLUDED = 2_000  # tasks that each of "several" long-running tasks cannot share a machine with (4.1)

# Section 4.2 and 4.3, at 12,000 machines; what is only in a picture is left out
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
