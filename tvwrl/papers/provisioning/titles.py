"""The figures that can be measured again, by name: titles only, so that listing them imports nothing."""

PAPER, PREFIX = "Provisioning paper", "provisioning"
FIGURES = {
    "fig3": "Figure 3: all algorithms, fixed demand, densities together",
    "fig4": "Figure 4: affinity densities, fixed demand",
    "fig5": "Figure 5: numbers of applications, fixed demand",
    "fig6": "Figure 6: affinity densities, demand at 98 times",
    "fig7": "Figure 7: numbers of applications, demand at 98 times",
}
ALL = "All figures of the provisioning paper in one folder; every instance is planned once."
