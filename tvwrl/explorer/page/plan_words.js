// What is said of machines, applications and limits.

const machineName = (index, m, most = 40) => (index.machines.name ? short(index.machines.name[m], most) : String(m + 1));
const nameOf = (index, i, most = 40) => short(index.applications.name[i], most);
const resourceWords = (index, values, sign = " ") => values.map((value, d) => `${amount(value)}${sign}${short(index.resources[d], 20)}`);
const kindWords = (index, kind) => resourceWords(index, Array.from(index.resources, (_, d) => index.machines.capacity[kind * index.resources.length + d])).join(", ");
const timeWords = t => `time ${number(t + 1)}`;

// "a allows at most 2 b beside it"
function limitWords(index, {i, j, limit}) {
  const one = nameOf(index, i), other = nameOf(index, j);
  if (i === j) return `At most ${plural(limit, "replica")} of ${one} on a machine`;
  return limit ? `Beside ${one}, at most ${plural(limit, "replica")} of ${other}` : `No ${other} beside ${one}`;
}

// The same, in parts, with links to the applications.
function limitParts(x, {i, j, limit}) {
  const to = k => link(nameOf(x.index, k), () => x.choose({application: k}));
  if (i === j) return [`At most ${plural(limit, "replica")} of `, to(i), " on a machine"];
  return limit ? ["Beside ", to(i), `, at most ${plural(limit, "replica")} of `, to(j)] : ["No ", to(j), " beside ", to(i)];
}

// Lines about a machine, for the box beside the pointer and for those who do not see the drawing.
function machineLines(model, m, t) {
  const {index} = model, lines = [`Machine ${machineName(index, m)}`];
  index.resources.forEach((name, d) => {
    const most = capacityOf(index, m, d), used = timesOf(index, d) > 1 && t >= 0 ? loadAt(model, m, d, t) : model.peak[d][m];
    const when = timesOf(index, d) > 1 ? (t >= 0 ? ` at ${timeWords(t)}` : " at its peak") : "";
    lines.push(`${short(name, 20)}: ${amount(used)} of ${amount(most)} (${percent(used / most)})${when}`);
  });
  lines.push(model.replicas[m] ? `${plural(model.replicas[m], "replica")} of ${plural(model.byMachine.rows(m).length, "application")}` : "Empty");
  for (const text of (model.faults.get(m) || []).slice(0, 2)) lines.push(`Violates a constraint: ${short(faultText(index, m, text), 120)}`);
  return lines;
}

// "1–3, 7 and 12 more" of machines that are numbered, else their names
function machinesWords(index, machines, most = 12) {
  if (index.machines.name) {
    const names = machines.slice(0, most).map(m => machineName(index, m));
    return machines.length > most ? `${names.join(", ")} and ${number(machines.length - most)} more` : listed(names);
  }
  const values = machines.map(m => m + 1);
  const parts = [];
  let k = 0;
  for (; k < values.length && parts.length < most; k++) {
    const from = values[k];
    while (k + 1 < values.length && values[k + 1] === values[k] + 1) k++;
    parts.push(values[k] > from ? `${from}–${values[k]}` : String(from));
  }
  return k < values.length ? `${parts.join(", ")} and ${number(values.length - k)} more` : listed(parts);
}

// What a plan achieves, in sentences.
function verdictWords(index, planner) {
  const {bound, machines} = index, all = machines.kind.length, costs = Boolean(machines.cost), parts = [];
  const uses = machines.fixed ? `uses ${number(planner.machines)} of ${plural(all, "machine")}` : `needs ${plural(planner.machines, "machine")}`;
  parts.push(costs ? `${uses}, which cost ${amount(planner.cost)}` : uses);
  const least = costs ? bound.cost : bound.machines;
  if (planner.above_bound !== null && least) {
    const what = costs ? `lower bound on the cost, ${amount(least)}` : `lower bound of ${number(least)}`;
    parts.push(planner.above_bound > 1e-9 ? `, ${percent(planner.above_bound)} above the ${what}` : `, the lower bound: no plan ${costs ? "is cheaper" : "needs fewer"}`);
  }
  return `${parts.join("")}.`;
}

function placedWords(model) {
  const {index, tree, planner} = model;
  const parts = [];
  if (!planner.unplaced) parts.push("All replicas are placed.");
  else {
    const reasons = new Map();
    tree.unplaced.reason.forEach((r, k) => reasons.set(r, (reasons.get(r) || 0) + tree.unplaced.replicas[k]));
    const [most] = [...reasons].sort((a, b) => b[1] - a[1]);
    const said = most && tree.unplaced.reasons[most[0]];
    const why = reasons.size > 1 ? `, for ${number(reasons.size)} reasons. The most frequent (${plural(most[1], "replica")}):` : ":";
    parts.push(`${plural(planner.unplaced, "replica is", "replicas are")} not placed${said ? `${why} ${short(said, 200)}` : ""}.`);
  }
  if (planner.violations) parts.push(`${plural(planner.violations, "replica violates", "replicas violate")} a constraint.`);
  if (index.running) parts.push(planner.moved ? `${plural(planner.moved, "running replica moves", "running replicas move")}.` : "No running replica moves.");
  return parts.join(" ");
}
