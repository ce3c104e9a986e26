"""A thousand pods that come and go: are all bound as decided, while the extender dies and a node vanishes?"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from e2e import load
from e2e.judging import check_once, compare
from e2e.kubelets import Life
from e2e.report import Report, share
from e2e.setting import Setting

PODS, RATE = 1000, 25.0
KILLS = (200, 450)
"""after how many pods the extender is killed"""
DOWN_SECONDS = 4.0
SCHEDULER_KILL, VANISH = 350, 700


@dataclass
class Story:
    """What happened when (``time.time()``)."""

    uids: list[str] = field(default_factory=list)
    down: list[tuple[float, float]] = field(default_factory=list)
    """from a kill until the extender was ready again"""
    vanished: str = ""
    vanished_at: float = 0.0
    displaced: int = 0

    def without_extender(self, life: Life) -> bool:
        """Whether the pod was bound while the extender was dead or only just back."""
        at = life.bound_at or 0.0
        return any(begin - 1 <= at <= end + 1 for begin, end in self.down)


def run(setting: Setting, report: Report) -> None:
    """Play the story, then check it."""
    report.say(f"{PODS} pods at {RATE:g} a second; kills of extender and scheduler, a node that vanishes")
    since = setting.extender.position()
    story = _play(setting, report)
    setting.kubelets.wait_bound(story.uids, 60)
    lives = [life for uid in story.uids if (life := setting.kubelets.lives[uid]).bound]
    report.check("steady: pods bound", len(lives) == PODS, share(len(lives), PODS))
    meanwhile = [life for life in lives if story.without_extender(life)]
    decided = [life for life in lives if not story.without_extender(life)]
    agreement = compare(decided, setting.extender.decisions(since))
    report.check(
        "steady: bound where decided, while the extender was there",
        agreement.as_decided == len(decided),
        share(agreement.as_decided, len(decided))
        + (f"; {agreement.undecided} undecided, {agreement.fallback} by fallback" if agreement.undecided else "")
        + (f"; {agreement.elsewhere[0]}" if agreement.elsewhere else ""),
    )
    report.check("extender killed: pods bound meanwhile", len(meanwhile) > 0, f"{len(meanwhile)}")
    check_once(report, "steady", story.uids, setting.kubelets.lives, setting.plane.audit)
    late = [life for life in lives if life.node == story.vanished and (life.bound_at or 0) > story.vanished_at + 0.5]
    report.check(
        "node vanished: no pod sent there since",
        not late and story.displaced > 0,
        f"{len(late)} sent to {story.vanished}, {story.displaced} pods had run there",
    )
    waits = sorted((life.bound_at or 0.0) - life.created for life in decided)
    report.measure(
        "steady: seconds from creation to binding", f"median {waits[len(waits) // 2]:.3f}, most {waits[-1]:.2f}"
    )


def _play(setting: Setting, report: Report) -> Story:
    story = Story()
    pods = load.population(PODS, lifetime=30.0)
    begin, revive = time.monotonic(), 0.0
    killed = 0.0
    for i, pod in enumerate(pods):
        time.sleep(max(0.0, begin + i / RATE - time.monotonic()))
        story.uids += setting.create([pod])
        if i in KILLS:
            setting.extender.kill()
            killed, revive = time.time(), time.monotonic() + DOWN_SECONDS
        if revive and time.monotonic() > revive:
            setting.extender.launch()
            revive = 0.0
        if killed and not revive and setting.extender.status("/readyz") == 200:
            story.down.append((killed, time.time()))
            report.measure("extender killed: seconds from start to ready", f"{time.time() - killed - DOWN_SECONDS:.1f}")
            killed = 0.0
        if i == SCHEDULER_KILL and setting.plane.scheduler:
            setting.plane.scheduler.kill()
            setting.schedule()
        if i == VANISH:
            _vanish(setting, story)
    if killed:
        story.down.append((killed, time.time()))
    return story


def _vanish(setting: Setting, story: Story) -> None:
    """The node with most pods burns down."""
    counts: dict[str, int] = {}
    for life in setting.kubelets.alive():
        if life.node:
            counts[life.node] = counts.get(life.node, 0) + 1
    story.vanished = max(counts, key=counts.__getitem__)
    story.displaced = counts[story.vanished]
    setting.remove_node(story.vanished)
    story.vanished_at = time.time()
