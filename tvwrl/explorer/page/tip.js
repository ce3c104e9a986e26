// What the box beside the pointer says about a cell or a lane of a heat map.

function cellWords(model, {machine, slot}) {
  const {resources, capacity} = model.index, width = resources.length, here = runsAt(model, machine, slot);
  const lines = [`Machine ${machine}, slot ${number(slot)}`];
  resources.forEach((name, d) => {
    const used = loadAt(model, machine, d, slot), most = capacity[machine * width + d];
    lines.push(`${name}: ${amount(used)} of ${amount(most)} (${percent(used / most)})${isOver(model, machine, slot, d) ? ", overshoot" : ""}`);
  });
  lines.push(here.length ? `Running: ${namesOf(model.tree, here, 6)}` : "Nothing runs here");
  return lines;
}

function laneWords(model, {lane, slot}) {
  const lines = [`Slot ${number(slot)}`];
  if (lane === "waiting") lines.push(`${plural(model.waiting[slot], "workload")} waiting`);
  if (lane === "overshoot") lines.push(`${plural(model.overCount[slot], "machine")} over capacity`);
  if (lane === "decisions") {
    const here = [];
    model.episode.slot.forEach((at, k) => { if (at === slot) here.push(k); });
    lines.push(here.length ? plural(here.length, "decision") : "No decision");
    for (const k of here.slice(0, 4)) lines.push(`${decisionWords(model, k)}${matters(model, k) ? `: cost ${amount(model.regret[k])} more than its cheapest alternative` : ""}`);
  }
  return lines;
}

function namesOf(tree, workloads, most) {
  const names = workloads.slice(0, most).map(i => short(tree.workloads.name[i], 30));
  return workloads.length > most ? `${names.join(", ")} and ${workloads.length - most} more` : listed(names);
}

// "w17 to machine 3" or "w17 waits"
function decisionWords(model, k) {
  const name = short(model.tree.workloads.name[model.episode.workload[k]], 40), m = model.episode.chosen[k];
  return m < 0 ? `${name} waits` : `${name} to machine ${m}`;
}
