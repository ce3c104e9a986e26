// The bar on top: which sequence, which schedulers, what is coloured, search, theme.

function makeBar(x, show) {
  const {index} = x, titles = index.schedulers.map((one, i) => [i, one.name]);
  byId("title").textContent = short(index.title, 60);
  byId("title").title = short(index.title, 300);
  byId("trace").textContent = `${short(index.trace.name, 60)}, ${index.trace.source === "synthetic" ? "a synthetic" : "a real"} trace`;
  select(byId("sequence"), index.sequences.map(({load, sequence}, i) => [i, `load ${load}, no. ${sequence}`]),
    value => go({sequence: Number(value), decision: -1, workload: -1}));
  select(byId("scheduler-a"), titles, value => swapTo({a: Number(value)}));
  select(byId("scheduler-b"), [[-1, "nothing"], ...titles], value => go({b: Number(value)}));
  choice(byId("shown"), [...index.resources.map((name, d) => [d, name]), ["fuller", "fullest resource"]],
    value => x.set(value === "fuller" ? {shown: value} : {shown: value, resource: value}));
  choice(byId("resource"), index.resources.map((name, d) => [d, name]), value => x.set({resource: value}));
  startTheme(byId("theme"));
  startSearch(byId("search"), byId("found"), find);
  if (index.left_out.length) {
    byId("left-out").hidden = false;
    fill(byId("left-out-list"), ...index.left_out.map(text => make("li", null, text)));
  }
  explainCosts(index);

  const go = x.go = changes => show({...x.view, ...changes}).catch(broken);

  // Another scheduler takes other decisions: keep to the workload of the chosen one.
  async function swapTo(changes) {
    const next = {...x.view, ...changes, decision: -1}, {workload} = x.view;
    if (next.b === next.a) next.b = -1;
    try {
      if (await show(next) && workload >= 0) x.set({workload, decision: decisionOf(x.a, workload)});
    } catch (error) {
      broken(error);
    }
  }

  function swap() {
    if (x.b) swapTo({a: x.view.b, b: x.view.a});
  }

  function find(text) {
    const hits = [], asked = /^(?:machine|m)?\s*(\d+)$/.exec(text);
    const machines = index.capacity.shape[0];
    if (asked && Number(asked[1]) < machines) hits.push({text: `machine ${Number(asked[1])}`, choose: () => x.set({machine: Number(asked[1])})});
    if (!x.tree) return [];
    const names = x.tree.workloads.name, add = i => hits.push({text: short(names[i], 60), choose: () => chooseWorkload(i)});
    const exact = names.findIndex(name => name.length < 1000 && name.toLowerCase() === text);
    if (exact >= 0) add(exact);
    for (let i = 0; i < names.length && hits.length < 12; i++) {
      if (i !== exact && names[i].slice(0, 1000).toLowerCase().includes(text)) add(i);
    }
    return hits;
  }

  function chooseWorkload(i) {
    const k = decisionOf(x.a, i), m = x.a.episode.machine[i];
    if (k >= 0) x.chooseDecision(k);
    else x.set({workload: i, decision: -1, ...(m >= 0 ? {machine: m, slot: x.a.episode.start[i]} : {})});
  }

  function update() {
    byId("sequence").value = x.view.sequence;
    byId("scheduler-a").value = x.view.a;
    byId("scheduler-b").value = x.view.b;
    for (const option of byId("scheduler-b").options) option.disabled = Number(option.value) === x.view.a;
    byId("swap").disabled = !x.b;
    press(byId("shown"), x.view.shown);
    press(byId("resource"), x.view.resource);
    drawLegend();
    byId("background-key").hidden = !x.tree.background;
  }

  byId("swap").addEventListener("click", swap);
  return {update, swap};
}

function drawLegend() {
  const stops = RAMPS[isDark() ? "dark" : "light"];
  byId("ramp").style.background = `linear-gradient(to right, ${stops.join(", ")})`;
}

// How costs come about, with this file's weights.
function explainCosts(index) {
  const weight = name => listed([].concat(index.weights[name]).map(value => value.toLocaleString("en")));
  const per = index.overshoot_per === "machine" ? "machine and resource, the first time it overshoots"
    : "workload and resource, the first time its machine overshoots while it runs there";
  const unused = [].concat(index.weights.K_u).every(value => value === 0) ? "Switched off here."
    : `The unused capacity of each resource on each machine in use, to the power of ${weight("K_u")}.`;
  fill(byId("cost-words"),
    make("dt", null, "Contention"), make("dd", null, `For each resource of a machine: ${weight("K_c")} times the product of demands, summed over all pairs of workloads there.`),
    make("dt", null, "Under-utilisation"), make("dd", null, unused),
    make("dt", null, "Overshoot"), make("dd", null, `${weight("K_o")} for every ${per}.`),
    make("dt", null, "Waiting"), make("dd", null, `${weight("K_w")} for every workload that waits, in every slot.`));
  fill(byId("classes"), ...index.class_colours.map((value, g) => {
    const key = make("span", {class: "swatch", "aria-hidden": "true"});
    key.style.background = value;
    return make("span", null, key, `class ${g + 1}`);
  }));
}
