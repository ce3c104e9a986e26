// Lists about the whole plan: limits that bind, what is not placed and why, what moved, the emptiest machines.

const PAGE = 100;

function makePlanLists(x) {
  let most = PAGE;
  const single = x.index.single; // each application has one replica, of which nobody needs to be told
  byId("more").addEventListener("click", () => { most += PAGE; update(); });

  const toApplication = i => link(nameOf(x.index, i), () => x.choose({application: i}));
  const toMachine = m => (m < 0 ? "no machine" : link(`machine ${machineName(x.index, m)}`, () => x.choose({machine: m, side: "a"})));

  // name -> {title, count, words, head, rows}; null where there is nothing of the kind to tell.
  const LISTS = {
    limits(a) {
      const {binding} = a.tree;
      if (single && !x.index.limits.i.length) return null;
      if (!binding) return {title: "Limits that bind", count: 0, words: "Which affinity limits bind was not worked out: see what this file leaves out.", rows: []};
      const kept = binding.i.length, words = !x.index.limits.i.length ? "There are no affinity limits." :
        `${bindingWords(binding.all, binding.with_room)}${kept < binding.all ? ` Here are the first ${number(kept)}.` : ""}`;
      return {title: "Limits that bind", count: binding.all, words, head: limitHead(), rows: Array.from(binding.i, (i, k) => () => make("tr", null,
        make("td", null, ...limitParts(x, {i, j: binding.j[k], limit: binding.limit[k]})), make("td", {class: "number"}, plural(binding.machines[k], "machine")),
        make("td", {class: "number"}, binding.room[k] ? number(binding.room[k]) : "–")))};
    },
    unplaced(a) {
      const {unplaced} = a.tree, order = Array.from(unplaced.application, (_, k) => k).sort((k, other) => unplaced.replicas[other] - unplaced.replicas[k] || k - other);
      if ((!x.index.machines.fixed || single) && !order.length) return null;
      return {title: "Not placed", count: order.length, words: order.length ? `${plural(a.planner.unplaced, "replica")} of ${plural(order.length, "application")} ${a.planner.unplaced === 1 ? "is" : "are"} on no machine.` : "All replicas are placed.",
        head: heads(["Application"], ["Replicas", true], ["Why"]), rows: order.map(k => () => make("tr", mine(unplaced.application[k]), make("td", null, toApplication(unplaced.application[k])),
          make("td", {class: "number"}, `${number(unplaced.replicas[k])} of ${number(x.index.applications.replicas[unplaced.application[k]])}`), make("td", null, unplaced.reasons[unplaced.reason[k]] || "The planner gives no reason.")))};
    },
    moved(a) {
      const {moves} = a.tree;
      if (!moves) return null;
      const order = Array.from(moves.application, (_, k) => k).filter(k => moves.start[k] >= 0).sort((k, other) => moves.replicas[other] - moves.replicas[k] || k - other);
      const started = moves.replicas.reduce((sum, n, k) => sum + (moves.start[k] < 0 ? n : 0), 0);
      return {title: "Moved", count: order.length, words: `${plural(a.planner.moved, "running replica moves", "running replicas move")}, ${number(started)} ${started === 1 ? "is" : "are"} started. Replicas of an application are alike, so the pairing of machines is one of several.`,
        head: heads(["Application"], ...(single ? [] : [["Replicas", true]]), ["From"], ["To"]), rows: order.map(k => () => make("tr", mine(moves.application[k]), make("td", null, toApplication(moves.application[k])),
          single ? null : make("td", {class: "number"}, number(moves.replicas[k])), make("td", null, toMachine(moves.start[k])), make("td", null, toMachine(moves.end[k]))))};
    },
    faults(a) {
      const {faults} = a.tree;
      if (!faults.all) return null;
      return {title: "Violates a constraint", count: faults.all, words: `${plural(faults.all, "place")} where the plan violates a constraint, as the referee found.${faults.text.length < faults.all ? ` Here are the first ${number(faults.text.length)}.` : ""}`,
        head: heads(["Machine"], ["What is wrong"]), rows: faults.text.map((text, k) => () => make("tr", null, make("td", null, toMachine(faults.machine[k])), make("td", null, faultText(x.index, faults.machine[k], text))))};
    },
    emptiest(a) {
      const used = Array.from({length: a.machines}, (_, m) => m).filter(m => a.replicas[m]);
      const full = new Map(used.map(m => [m, shareAt(a, m, "fullest", -1)])), empty = a.machines - used.length;
      used.sort((m, other) => full.get(m) - full.get(other) || m - other);
      return {title: "Emptiest machines", count: used.length, words: `${plural(used.length, "machine")} with replicas, the emptiest first${empty ? `; ${number(empty)} more ${empty === 1 ? "is" : "are"} empty` : ""}. A machine counts as full as its fullest resource is at its peak.`,
        head: heads(["Machine"], ["How full", true], ["Replicas", true], ...(single ? [] : [["Applications", true]])), rows: used.map(m => () => make("tr", {"aria-current": m === x.view.machine ? "true" : null}, make("td", null, toMachine(m)),
          make("td", {class: "number"}, percent(full.get(m))), make("td", {class: "number"}, number(a.replicas[m])), single ? null : make("td", {class: "number"}, number(a.byMachine.rows(m).length))))};
    },
    differs(a) {
      const {b} = x;
      if (!b) return null;
      const found = x.index.applications.name.map((_, i) => i).filter(i => !sameShares(a, b, i)), told = x.index.running || x.index.blacklist.application.length;
      const on = (model, i) => model.byApplication.rows(i).length, left = (model, i) => (model.unplaced.has(i) ? model.unplaced.get(i).replicas : 0);
      const apart = i => 1e6 * Math.abs(left(b, i) - left(a, i)) + Math.abs(on(b, i) - on(a, i));
      found.sort((i, other) => apart(other) - apart(i) || i - other);
      return {title: "Placed differently", count: found.length, words: `${plural(found.length, "application is", "applications are")} placed differently in A and B${told ? "." : ": in other numbers per machine, or on other kinds. Machines of a kind are interchangeable."}`,
        head: heads(["Application"], ["Replicas", true], ["Machines in A", true], ["in B", true], ["Not placed in A", true], ["in B", true]), rows: found.map(i => () => make("tr", mine(i), make("td", null, toApplication(i)),
          ...[x.index.applications.replicas[i], on(a, i), on(b, i), left(a, i), left(b, i)].map((n, k) => make("td", {class: "number"}, k > 2 && !n ? "–" : number(n)))))};
    },
  };

  const mine = i => ({"aria-current": i === x.view.application ? "true" : null});
  const heads = (...columns) => make("thead", null, make("tr", null, ...columns.map(([text, isNumber]) => make("th", {scope: "col", class: isNumber ? "number" : null}, text))));
  let made = {}, of = "";

  function update() {
    const {a, b} = x, key = `${a.number} ${b ? b.number : ""}`;
    if (key !== of) {
      made = Object.fromEntries(Object.entries(LISTS).map(([name, make]) => [name, make(a)]).filter(([, list]) => list));
      of = key;
      most = PAGE;
      choice(byId("list-choice"), Object.entries(made).map(([name, {title, count}]) => [name, `${title} (${number(count)})`]), value => { most = PAGE; x.set({list: value}); });
    }
    const name = made[x.view.list] ? x.view.list : Object.keys(made).find(one => made[one].count) || Object.keys(made)[0], list = made[name];
    press(byId("list-choice"), name);
    byId("list-words").textContent = list.words;
    fill(byId("list"), list.rows.length ? list.head : "", make("tbody", null, ...list.rows.slice(0, most).map(row => row())));
    byId("more").hidden = list.rows.length <= most;
    byId("more").textContent = `Show ${number(Math.min(PAGE, list.rows.length - most))} more of ${number(list.rows.length)}`;
  }

  return {update};
}

// How many affinity limits bind, and how many of them where the capacity for one more replica is left.
function bindingWords(all, withRoom) {
  if (!all) return "No affinity limit binds.";
  if (all === 1) {
    return "1 affinity limit binds: some machine can take no further replica. " +
      (withRoom ? "It binds on a machine with the capacity for one more." : "It never binds where the capacity for one is left.");
  }
  if (!withRoom) return `${number(all)} affinity limits bind, none of them on a machine with the capacity for one more replica.`;
  const some = withRoom === all ? "all of them do" : `${number(withRoom)} of them ${withRoom === 1 ? "does" : "do"}`;
  return `${number(all)} affinity limits bind; ${some} so on a machine with the capacity for one more replica.`;
}

// Without the machine, which stands beside it.
function faultText(index, m, text) {
  const start = m < 0 ? "" : `machine ${machineName(index, m, Infinity)}`;
  return capital(start && text.startsWith(start) ? text.slice(start.length).replace(/^[:,] /, "") : text);
}

const LIST_NAMES = ["limits", "unplaced", "moved", "faults", "emptiest", "differs"];
