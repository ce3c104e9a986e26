// The list of decisions: of this sequence (by cost or by time, or only those in which A and B differ), or the costliest
// of all sequences.

const PAGE = 100;

function makeDecisions(section, x) {
  const list = byId("decision-list"), more = byId("more-decisions"), only = byId("only-different");
  let scope = "here", order = "cost", most = PAGE, reached = -1;

  choice(byId("scope"), [["here", "This sequence"], ["all", "All sequences"]], value => { scope = value; most = PAGE; update(); });
  choice(byId("order"), [["cost", "Costliest first"], ["time", "By time"]], value => { order = value; most = PAGE; update(); });
  only.addEventListener("change", update);
  more.addEventListener("click", () => { most += PAGE; update(); });

  function update() {
    press(byId("scope"), scope);
    press(byId("order"), order);
    byId("order").hidden = scope === "all";
    byId("only-different-label").hidden = !x.b || scope === "all";
    const rows = scope === "all" ? everywhere() : here();
    const count = byId("decision-count");
    count.textContent = scope === "all" ? `The ${plural(rows.length, "costliest decision")} of ${x.a.scheduler.name}`
      : `${plural(rows.length, "decision")}${filtered() ? " in which A and B differ" : ""} of ${x.a.scheduler.name}`;
    fill(list, ...rows.slice(0, most).map(row => row()));
    more.hidden = rows.length <= most;
    more.textContent = `Show ${number(Math.min(PAGE, rows.length - most))} more of ${number(rows.length)}`;
    mark();
  }

  const filtered = () => Boolean(x.b && only.checked && scope === "here");

  function here() {
    const model = x.a;
    let found = order === "cost" ? model.byRegret : Array.from({length: model.episode.slot.length}, (_, k) => k);
    if (filtered()) found = found.filter(k => differs(model, x.b, k));
    return found.map(k => () => row(model.episode.slot[k], decisionWords(model, k), bestWords(model, k), model.regret[k], model.mostRegret, () => x.chooseDecision(k), k));
  }

  function everywhere() {
    const found = x.index.costliest.filter(one => one.scheduler === x.view.a), most = found.length ? found[0].regret : 0;
    return found.map(one => {
      const {load, sequence} = x.index.sequences[one.sequence];
      const words = one.chosen < 0 ? `${short(one.workload)} waits` : `${short(one.workload)} to machine ${one.chosen}`;
      return () => row(one.slot, words, `${machineWords(x.index, one.best)} · load ${load}, sequence ${sequence}`, one.regret, most,
        () => x.jump({sequence: one.sequence, decision: one.decision}), one.sequence === x.view.sequence ? one.decision : -1);
    });
  }

  function bestWords(model, k) {
    if (Number.isNaN(model.regret[k]) || !matters(model, k)) return "";
    const m = model.episode.machines[k * model.episode.machines.shape[1] + model.best[k]];
    return machineWords(x.index, m);
  }

  function row(slot, words, better, regret, largest, choose, k) {
    const cost = Number.isNaN(regret) ? "not simulated" : regret > 0 ? amount(regret) : "–";
    const bar = make("span", {class: "bar"});
    bar.style.width = `${largest > 0 && regret > 0 ? Math.max(1, 100 * regret / largest) : 0}%`;
    return make("tr", {"data-decision": k},
      make("td", {class: "number"}, number(slot)), make("td", null, link(words, choose)), make("td", {class: "quiet"}, better),
      make("td", {class: "number cost"}, bar, make("span", {class: Number.isNaN(regret) ? "quiet" : null}, cost)));
  }

  function mark() {
    for (const row of list.children) {
      const current = Number(row.dataset.decision) === x.view.decision && x.view.decision >= 0;
      if (current) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  // The costliest, and from there the next in order of cost.
  function costliest() {
    const model = x.a, list = model.byRegret.filter(k => matters(model, k)), {decision} = x.view;
    if (!list.length) return;
    const goesOn = decision === list[0] || decision === reached;
    reached = goesOn ? list[(list.indexOf(decision) + 1) % list.length] : list[0];
    x.chooseDecision(reached);
  }

  return {update, mark, costliest};
}
