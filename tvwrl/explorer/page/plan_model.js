// What the views need of one plan, worked out once: loads, how full machines are, where each application is.

// A replica's demand of resource d at time t.
function demandAt(index, i, d, t) {
  const {of, code, value} = index.applications.demand[d], width = code.shape[1];
  return value[code[of[i] * width + (width > 1 ? t : 0)]];
}

const timesOf = (index, d) => index.applications.demand[d].code.shape[1];

function planModel(index, tree, number) {
  const planner = index.planners[number], {machines} = tree, rows = tree.application.length, D = index.resources.length;
  const byMachine = starts(tree.machine, machines), byApplication = starts(tree.application, index.applications.name.length);
  const load = index.resources.map((_, d) => new Float64Array(machines * timesOf(index, d)));
  const replicas = new Float64Array(machines);
  for (let r = 0; r < rows; r++) {
    const i = tree.application[r], m = tree.machine[r], n = tree.replicas[r];
    replicas[m] += n;
    for (let d = 0; d < D; d++) {
      const {of, code, value} = index.applications.demand[d], width = code.shape[1];
      for (let t = 0, from = of[i] * width, to = m * width; t < width; t++) load[d][to + t] += n * value[code[from + t]];
    }
  }
  const peak = index.resources.map((_, d) => peaks(load[d], machines, timesOf(index, d)));
  const model = {number, planner, tree, index, machines, load, peak, replicas, byMachine, byApplication};
  const over = new Set();
  for (let k = 0; k < tree.over.shape[0]; k++) over.add((tree.over[3 * k] * index.times + tree.over[3 * k + 1]) * D + tree.over[3 * k + 2]);
  const faults = new Map();
  tree.faults.machine.forEach((m, k) => faults.set(m, [...(faults.get(m) || []), tree.faults.text[k]]));
  const unplaced = new Map();
  tree.unplaced.application.forEach((i, k) => unplaced.set(i, {replicas: tree.unplaced.replicas[k], reason: tree.unplaced.reasons[tree.unplaced.reason[k]]}));
  return {...model, over, faults, unplaced, moves: movesOf(tree.moves)};
}

// Rows by what they are of: order, and where each begins.
function starts(of, count) {
  const first = new Int32Array(count + 1), order = new Int32Array(of.length);
  for (const one of of) first[one + 1]++;
  for (let k = 0; k < count; k++) first[k + 1] += first[k];
  const next = first.slice();
  for (let r = 0; r < of.length; r++) order[next[of[r]]++] = r;
  return {first, rows: k => order.subarray(first[k], first[k + 1])};
}

function peaks(load, machines, width) {
  const most = new Float64Array(machines);
  for (let m = 0, at = 0; m < machines; m++) for (let t = 0; t < width; t++, at++) most[m] = Math.max(most[m], load[at]);
  return most;
}

// Moves by application: [{start, end, replicas}], machines -1 where there is none.
function movesOf(moves) {
  const found = new Map();
  if (moves) {
    moves.application.forEach((i, k) => {
      if (!found.has(i)) found.set(i, []);
      found.get(i).push({start: moves.start[k], end: moves.end[k], replicas: moves.replicas[k]});
    });
  }
  return found;
}

const kindOf = (index, m) => index.machines.kind[Math.min(m, index.machines.kind.length - 1)];
const capacityOf = (index, m, d) => index.machines.capacity[kindOf(index, m) * index.resources.length + d];
const loadAt = (model, m, d, t) => model.load[d][timesOf(model.index, d) > 1 ? m * model.index.times + t : m];

// Share of capacity of resource d ("fullest": of the fullest one) at time t; t -1: at its peak.
function shareAt(model, m, d, t) {
  if (d === "fullest") return model.index.resources.reduce((most, _, k) => Math.max(most, shareAt(model, m, k, t)), 0);
  return (t < 0 ? model.peak[d][m] : loadAt(model, m, d, t)) / capacityOf(model.index, m, d);
}

function isOver(model, m, d, t) {
  if (!model.over.size) return false;
  if (d === "fullest") return model.index.resources.some((_, k) => isOver(model, m, k, t));
  if (t < 0) return Array.from({length: model.index.times}, (_, h) => h).some(h => isOver(model, m, d, h));
  return model.over.has((m * model.index.times + t) * model.index.resources.length + d);
}

// Machines in the order in which they are drawn, and the groups in it: [{from, to, kind}].
function arranged(model, order, grouped, shown) {
  const machines = Array.from({length: model.machines}, (_, m) => m), {index} = model;
  if (order === "fill") {
    const full = machines.map(m => (model.replicas[m] ? 1 + shareAt(model, m, shown, -1) : 0));
    machines.sort((m, other) => full[other] - full[m] || m - other);
  }
  if (!grouped) return {machines, groups: []};
  const first = new Map();
  for (let m = 0; m < model.machines; m++) if (!first.has(kindOf(index, m))) first.set(kindOf(index, m), first.size);
  machines.sort((m, other) => first.get(kindOf(index, m)) - first.get(kindOf(index, other)));
  const groups = [];
  machines.forEach((m, place) => {
    const kind = kindOf(index, m), last = groups[groups.length - 1];
    if (last && last.kind === kind) last.to = place + 1;
    else groups.push({from: place, to: place + 1, kind});
  });
  return {machines, groups};
}

// [application, replicas] on a machine, the largest first.
function contentsOf(model, m) {
  const size = (i, n) => Math.max(...model.index.resources.map((_, d) => n * demandPeak(model.index, i, d) / capacityOf(model.index, m, d)));
  return Array.from(model.byMachine.rows(m), r => [model.tree.application[r], model.tree.replicas[r]])
    .map(([i, n]) => ({i, n, size: size(i, n)})).sort((a, b) => b.size - a.size || a.i - b.i);
}

function demandPeak(index, i, d) {
  let most = 0;
  for (let t = 0; t < timesOf(index, d); t++) most = Math.max(most, demandAt(index, i, d, t));
  return most;
}

function replicasOn(model, i, m) {
  for (const r of model.byApplication.rows(i)) if (model.tree.machine[r] === m) return model.tree.replicas[r];
  return 0;
}

// Limits of the applications on a machine that are reached there; limit 0: j may not come at all.
function reachedOn(model, m) {
  const {limits} = model.index, counts = new Map(contentsOf(model, m).map(({i, n}) => [i, n])), found = [];
  for (const i of counts.keys()) {
    for (const k of limitsFrom(model.index).rows(i)) {
      if ((counts.get(limits.j[k]) || 0) === limits.limit[k]) found.push({i, j: limits.j[k], limit: limits.limit[k]});
    }
  }
  return found.sort((a, b) => b.limit - a.limit || a.i - b.i || a.j - b.j);
}

function limitsFrom(index) {
  if (!index.limitsFrom) index.limitsFrom = starts(index.limits.i, index.applications.name.length);
  return index.limitsFrom;
}

function limitsInto(index) {
  if (!index.limitsInto) index.limitsInto = starts(index.limits.j, index.applications.name.length);
  return index.limitsInto;
}

// Whether two plans share out an application alike. Machines of a kind are alike unless they are told apart.
function sameShares(a, b, i) {
  const told = a.index.running || a.index.blacklist.application.length;
  const key = model => Array.from(model.byApplication.rows(i), r =>
    `${told ? model.tree.machine[r] : kindOf(model.index, model.tree.machine[r])} ${model.tree.replicas[r]}`).sort().join();
  return key(a) === key(b);
}
