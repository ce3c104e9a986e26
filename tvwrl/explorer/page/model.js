// What the views need of one scheduler's episode, worked out once: loads, overshoot, queue, regrets.

const WAIT = -1, NOTHING = -2;

function episodeModel(index, tree, number) {
  const episode = tree.episodes[number], work = tree.workloads;
  const [machines, resources] = index.capacity.shape, count = work.name.length;
  const slots = Math.max(0, ...tree.episodes.map(one => one.penalties.shape[0]));
  const load = new Float64Array(resources * machines * slots), waiting = new Float64Array(slots);
  const runs = Array.from({length: machines}, () => []);

  if (tree.background) {
    const period = tree.background.shape[0];
    for (let d = 0, to = 0; d < resources; d++) {
      for (let m = 0; m < machines; m++) {
        for (let t = 0; t < slots; t++) load[to++] = tree.background[((t % period) * machines + m) * resources + d];
      }
    }
  }
  for (let i = 0; i < count; i++) {
    const m = episode.machine[i], start = m < 0 ? slots : episode.start[i], end = Math.min(slots, start + work.length[i]);
    for (let t = work.arrival[i]; t < Math.min(start, slots); t++) waiting[t]++;
    if (m >= 0 && !episode.stays) runs[m].push({i, begin: start, end});
  }
  if (episode.stays) {
    const {workload, machine, begin, end} = episode.stays;
    workload.forEach((i, k) => runs[machine[k]].push({i, begin: begin[k], end: Math.min(slots, end[k])}));
  }
  runs.forEach((list, m) => {
    list.sort((one, other) => episode.start[one.i] - episode.start[other.i] || one.i - other.i);
    for (const {i, begin, end} of list) {
      for (let d = 0; d < resources; d++) {
        let from = (work.offset[i] + begin - episode.start[i]) * resources + d, to = (d * machines + m) * slots + begin;
        for (let t = begin; t < end; t++, from += resources) load[to++] += work.demand[from];
      }
    }
  });
  return {
    number, episode, tree, index, slots, machines, resources, load, waiting, runs, ...overshoots(index, load, slots),
    ...regrets(episode), scheduler: index.schedulers[number],
  };
}

// over: a bit per resource for each machine and slot; overCount: machines that overshoot in a slot.
function overshoots(index, load, slots) {
  const [machines, resources] = index.capacity.shape;
  const over = new Uint8Array(machines * slots), overCount = new Float64Array(slots);
  for (let d = 0; d < resources; d++) {
    for (let m = 0; m < machines; m++) {
      const limit = index.capacity[m * resources + d] * (1 + 1e-9), row = (d * machines + m) * slots;
      for (let t = 0; t < slots; t++) if (load[row + t] > limit) over[m * slots + t] |= 1 << d;
    }
  }
  for (let m = 0; m < machines; m++) for (let t = 0; t < slots; t++) if (over[m * slots + t]) overCount[t]++;
  return {over, overCount};
}

// Of each decision: which alternative was taken (own), the cheapest (best), and what lies between (regret); NaN and -1
// where it was not simulated. byRegret: the costliest first.
function regrets(episode) {
  const [count, width] = episode.machines.shape;
  const regret = new Float64Array(count).fill(NaN), own = new Int32Array(count).fill(-1), best = new Int32Array(count).fill(-1);
  for (let k = 0; k < count; k++) {
    let least = Infinity;
    for (let a = 0; a < width; a++) {
      if (episode.machines[k * width + a] === NOTHING) continue;
      if (episode.machines[k * width + a] === episode.chosen[k]) own[k] = a;
      const total = totalOf(episode, k, a);
      if (total < least) [least, best[k]] = [total, a];
    }
    const mine = own[k] < 0 ? NaN : totalOf(episode, k, own[k]);
    if (best[k] >= 0 && mine <= least) best[k] = own[k];
    regret[k] = best[k] < 0 ? NaN : mine - least;
  }
  const worth = k => (regret[k] >= 0 ? regret[k] : -1);
  const byRegret = Array.from({length: count}, (_, k) => k).sort((j, k) => worth(k) - worth(j) || j - k);
  return {regret, own, best, byRegret, mostRegret: count ? Math.max(0, worth(byRegret[0])) : 0};
}

// The costs of an alternative by term: four, or five where workloads may be moved.
function costsOf(episode, k, a) {
  const terms = episode.costs.shape[2], at = (k * episode.machines.shape[1] + a) * terms;
  return episode.costs.subarray(at, at + terms);
}

function totalOf(episode, k, a) {
  let sum = 0;
  for (const cost of costsOf(episode, k, a)) sum += cost;
  return sum;
}

// The alternatives of a decision, cheapest first, those not simulated last.
function alternativesOf(model, k) {
  const {episode} = model, width = episode.machines.shape[1], found = [];
  const mine = model.own[k] < 0 ? NaN : totalOf(episode, k, model.own[k]);
  for (let a = 0; a < width; a++) {
    const at = k * width + a, machine = episode.machines[at];
    if (machine === NOTHING) continue;
    const total = totalOf(episode, k, a);
    found.push({
      machine, total, costs: Array.from(costsOf(episode, k, a)), difference: total - mine,
      score: episode.scores[at], possible: Boolean(episode.possible[at]), chosen: a === model.own[k],
      cheapest: a === model.best[k],
    });
  }
  const key = one => (Number.isNaN(one.total) ? Infinity : one.total);
  return found.sort((one, other) => (key(one) === key(other) ? Number(other.chosen) - Number(one.chosen) : key(one) - key(other)));
}

// Chosen minus cheapest by term, or null where that is not known.
function regretParts(model, k) {
  if (!(model.regret[k] >= 0)) return null;
  const own = costsOf(model.episode, k, model.own[k]);
  return Array.from(costsOf(model.episode, k, model.best[k]), (cost, term) => cost - own[term]);
}

const matters = (model, k) => model.regret[k] > 1e-9 * Math.max(1, Math.abs(totalOf(model.episode, k, model.own[k])));
const loadAt = (model, m, d, t) => model.load[(d * model.machines + m) * model.slots + t];
const capacityOf = (model, m, d) => model.index.capacity[m * model.resources + d];
const endOf = (model, i) => model.episode.start[i] + model.tree.workloads.length[i];
const runsAt = (model, m, t) => model.runs[m].filter(({begin, end}) => begin <= t && t < end).map(({i}) => i);

// The last decision about a workload, preferably the one that placed it; -1 if there is none.
function decisionOf(model, workload) {
  const {workload: about, chosen} = model.episode;
  let found = -1;
  for (let k = 0; k < about.length; k++) if (about[k] === workload && (found < 0 || chosen[k] >= 0)) found = k;
  return found;
}

// Used share of capacity: of one resource, or of the fuller ("fuller").
function shareAt(model, m, t, shown) {
  const of = d => {
    const capacity = capacityOf(model, m, d), used = loadAt(model, m, d, t);
    return capacity > 0 ? used / capacity : used > 0 ? Infinity : 0;
  };
  if (shown !== "fuller") return of(shown);
  let most = 0;
  for (let d = 0; d < model.resources; d++) most = Math.max(most, of(d));
  return most;
}

const isOver = (model, m, t, shown) => {
  const bits = model.over[m * model.slots + t];
  return shown === "fuller" ? bits !== 0 : (bits >> shown & 1) === 1;
};

// What was expected of workload i after `age` slots seen: [expected largest demand, variance] `ahead` slots ahead,
// or null where there is none. Without forecasts of every age those of the decision (age 0) are read further ahead.
function forecastAt(tree, i, age, ahead, d, resources) {
  const found = tree.forecast;
  if (!found) return null;
  if (!found.every_age) [ahead, age] = [ahead + age, 0];
  const j = found.segments.findIndex(([first, last]) => first <= ahead && ahead <= last);
  if (j < 0) return null;
  const row = found.every_age ? tree.workloads.offset[i] + i + age : i;
  const at = (row * found.segments.length + j) * resources + d;
  const most = found.most[at] * found.step, variance = found.spread[at] * found.step_variance;
  return Number.isFinite(most) && Number.isFinite(variance) ? [most, variance] : null;
}

// Where two schedulers part first: {slot, workload}, or null if they do the same.
function firstDifference(one, other) {
  const a = one.episode, b = other.episode;
  let found = null;
  for (let i = 0; i < a.machine.length; i++) {
    if (a.machine[i] === b.machine[i] && (a.machine[i] < 0 || a.start[i] === b.start[i])) continue;
    const slot = Math.min(a.machine[i] < 0 ? Infinity : a.start[i], b.machine[i] < 0 ? Infinity : b.start[i]);
    if (!found || slot < found.slot) found = {slot, workload: i};
  }
  return found;
}

// What a scheduler did with a workload in a slot: a machine, or WAIT.
const placedAt = (model, i, slot) =>
  (model.episode.machine[i] >= 0 && model.episode.start[i] === slot ? model.episode.machine[i] : WAIT);

// Whether another scheduler did something else than decision k of `model`.
function differs(model, other, k) {
  const i = model.episode.workload[k], slot = model.episode.slot[k], b = other.episode;
  if (model.episode.chosen[k] >= 0) return b.machine[i] !== model.episode.chosen[k] || b.start[i] !== slot;
  return b.machine[i] >= 0 && b.start[i] <= slot;
}

const costOf = (model, term = -1) => {
  const {penalties} = model.episode;
  let sum = 0;
  for (let at = 0; at < penalties.length; at++) if (term < 0 || at % penalties.shape[1] === term) sum += penalties[at];
  return sum;
};
