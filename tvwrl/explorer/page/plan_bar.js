// The bar on top, the verdict, and the table of planners.

function makePlanBar(x, show) {
  const {index} = x, names = index.planners.map((one, k) => [k, one.name]);
  byId("title").textContent = short(index.title, 60);
  byId("title").title = short(index.title, 300);
  const replicas = index.applications.replicas.reduce((sum, n) => sum + n, 0);
  byId("size").textContent = `${plural(index.applications.name.length, "application")}, ${plural(replicas, "replica")}`;
  select(byId("planner-a"), names, value => go({a: Number(value)}));
  select(byId("planner-b"), [[-1, "nothing"], ...names], value => go({b: Number(value)}));
  byId("compare-label").hidden = byId("swap").hidden = names.length < 2;
  startTheme(byId("theme"));
  startSearch(byId("search"), byId("found"), find);
  byId("swap").addEventListener("click", swap);
  if (index.left_out.length) {
    byId("left-out").hidden = false;
    fill(byId("left-out-list"), ...index.left_out.map(text => make("li", null, short(text, 500))));
  }

  function go(changes) {
    const next = {...x.view, ...changes};
    if (next.a === next.b) next.b = changes.a !== undefined && x.b ? x.view.a : -1;
    show(next).catch(broken);
  }

  function swap() {
    if (x.b) go({a: x.view.b, b: x.view.a});
  }

  function find(text) {
    const hits = [], all = index.applications.name;
    for (const m of x.a ? machinesFound(text) : []) hits.push({text: `machine ${machineName(index, m, 60)}`, choose: () => x.choose({machine: m, side: "a"})});
    const add = i => hits.push({text: nameOf(index, i, 60), choose: () => x.choose({application: i})});
    const exact = all.findIndex(name => name.toLowerCase() === text);
    if (exact >= 0) add(exact);
    for (let i = 0; i < all.length && hits.length < 12; i++) if (i !== exact && all[i].toLowerCase().includes(text)) add(i);
    return hits;
  }

  // Machines by name or number: the one that is called so, then a few whose names contain the text.
  function machinesFound(text) {
    const {name} = index.machines, sought = text.replace(/^machine\s+/, "");
    if (!name) {
      const asked = /^(?:machine|m)?\s*(\d+)$/.exec(text), m = asked ? Number(asked[1]) - 1 : -1;
      return m >= 0 && m < x.a.machines ? [m] : [];
    }
    const found = [];
    for (let m = 0; m < x.a.machines; m++) {
      const own = name[m].toLowerCase();
      if (own === sought) found.unshift(m);
      else if (found.length < 6 && own.includes(sought)) found.push(m);
    }
    return found.slice(0, 6);
  }

  function update() {
    byId("planner-a").value = x.view.a;
    byId("planner-b").value = x.view.b;
    for (const option of byId("planner-b").options) option.disabled = Number(option.value) === x.view.a;
    byId("swap").disabled = !x.b;
    verdict();
    table();
  }

  function verdict() {
    const {a, b} = x, name = model => make("strong", null, titled(model.planner));
    const lines = [make("span", null, name(a), ` ${verdictWords(index, a.planner)} ${placedWords(a)}`)];
    if (b) {
      const more = b.planner.machines - a.planner.machines;
      const than = more ? `${number(Math.abs(more))} ${more > 0 ? "more" : "fewer"} than A` : "as many as A";
      const cost = index.machines.cost ? `, and costs ${amount(Math.abs(b.planner.cost - a.planner.cost))} ${b.planner.cost >= a.planner.cost ? "more" : "less"}` : "";
      lines.push(make("span", null, name(b), ` ${index.machines.fixed ? "uses" : "needs"} ${plural(b.planner.machines, "machine")}, ${than}${cost}. ${placedWords(b)}`));
    } else {
      const others = index.planners.filter((_, k) => k !== a.number).slice(0, 3);
      if (others.length) lines.push(make("span", {class: "quiet"}, `For comparison: ${listed(others.map(one => `${titled(one)} ${achieves(one)}`))}.`));
    }
    fill(byId("verdict"), ...lines);
    byId("bound").textContent = index.bound.words ? `${capital(index.bound.words)}.` : "";
  }

  // What counts most of a plan, in a few words.
  function achieves(planner) {
    const {machines} = index;
    if (machines.fixed && planner.unplaced) return `leaves ${plural(planner.unplaced, "replica")} unplaced`;
    return machines.cost ? `costs ${amount(planner.cost)}` : `${machines.fixed ? "uses" : "needs"} ${number(planner.machines)}`;
  }

  function table() {
    const {planners, machines, running} = index, some = get => planners.some(get);
    const columns = [["Machines", one => number(one.machines)]];
    if (machines.cost) columns.push(["Cost", one => amount(one.cost)]);
    if (some(one => one.above_bound !== null)) columns.push(["Above lower bound", one => (one.above_bound === null ? "–" : percent(one.above_bound))]);
    if (machines.fixed && (!index.single || some(one => one.unplaced))) columns.push(["Not placed", one => number(one.unplaced)]);
    if (some(one => one.violations)) columns.push(["Violations", one => number(one.violations)]);
    if (running) columns.push(["Moved", one => number(one.moved)]);
    if (some(one => one.seconds)) columns.push(["Seconds", one => number(one.seconds, one.seconds < 9.95 ? 2 : 0)]);
    fill(byId("planners"), make("thead", null, make("tr", null, make("th", {scope: "col"}, "Planner"), ...columns.map(([title]) => make("th", {scope: "col", class: "number"}, title)))),
      make("tbody", null, ...planners.map((one, k) => make("tr", {"aria-current": k === x.view.a ? "true" : null},
        make("th", {scope: "row"}, link(titled(one), () => go({a: k})), k === x.view.a ? make("span", {class: "side"}, "A") : "", k === x.view.b ? make("span", {class: "side b"}, "B") : ""),
        ...columns.map(([, text]) => make("td", {class: "number"}, text(one)))))));
  }

  return {update, swap};
}

const titled = planner => (planner.name === "best" ? "best" : short(planner.title || planner.name, 50));
