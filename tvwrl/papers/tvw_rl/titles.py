"""The figures that can be measured again, by name: titles only, so that listing them imports nothing."""

PAPER, PREFIX = "TVW-RL paper", ""
FIGURES = {
    "fig4": "Figure 4: operational excellence, Google",
    "fig5": "Figure 5: operational excellence, Alibaba",
    "table2-noise": "Table 2, robustness against noise (Google, load 0.5)",
    "table2-clustering": "Table 2, variation of clustering (Google, load 0.5)",
    "table3-ku": "Table 3: effect of K_u (Alibaba, load 0.5)",
    "sensitivity-ko": "Sensitivity to K_o, the penalty of overshoot (load 0.5)",
    "sensitivity-kc": "Sensitivity to K_c, the penalty of contention (load 0.5)",
    "sensitivity-kw": "Sensitivity to K_w, the penalty of waiting, in calm and in bursts (load 0.5)",
    "table1": "Table 1: classes by aggregate features, temporal features and DTW (minutes per trace)",
}
ALL = (
    "TVW-RL paper, all figures and tables in one folder; trainings that several need are made once. Preset smoke "
    "leaves table1 out."
)
