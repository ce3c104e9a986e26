// The page of episodes: reads the fragment, loads the sequence, tells the views what changed.

async function start(index) {
  const names = index.schedulers.map(one => one.name), models = new Map();
  const x = {index, a: null, b: null, tree: null, difference: null, tip: makeTip(byId("tip"))};
  const of = get => () => (x.a ? get(x.a) : 1e9);
  const shownNames = [...index.resources, "fuller"];
  const store = makeStore({
    sequence: whole(() => index.sequences.length),
    a: named(() => names),
    b: named(() => names),
    slot: whole(() => 1e9),
    machine: whole(() => index.capacity.shape[0]),
    decision: whole(of(model => model.episode.slot.length)),
    workload: whole(of(model => model.tree.workloads.name.length)),
    shown: {
      read: text => (shownNames.includes(text) ? (text === "fuller" ? text : index.resources.indexOf(text)) : undefined),
      write: value => (value === "fuller" ? null : index.resources[value]),
    },
    resource: named(() => index.resources),
  }, {sequence: 0, a: 0, b: -1, slot: 0, machine: -1, decision: -1, workload: -1, shown: "fuller", resource: 0});
  x.store = store;
  x.view = store.view;
  x.set = store.set;

  x.chooseDecision = (k, more) => {
    const {slot, workload, chosen} = x.a.episode;
    const best = x.a.best[k] < 0 ? -1 : x.a.episode.machines[k * x.a.episode.machines.shape[1] + x.a.best[k]];
    const machine = chosen[k] >= 0 ? chosen[k] : best >= 0 ? best : x.view.machine;
    store.set({decision: k, slot: slot[k], workload: workload[k], machine, ...more});
  };
  x.jump = async changes => {
    try {
      if (await show({...x.view, ...changes})) x.chooseDecision(changes.decision);
    } catch (error) {
      broken(error);
    }
  };

  const views = makeViews(x, show);
  let turn = 0;

  // Loads what `next` asks for and shows it; false if something else was asked for meanwhile.
  async function show(next) {
    const mine = ++turn;
    document.body.classList.add("busy");
    const [a, b, data] = await Promise.all([model(next.sequence, next.a), model(next.sequence, next.b), tree(`sequence-${next.sequence}`)]);
    if (mine !== turn) return false;
    document.body.classList.remove("busy");
    Object.assign(x, {a, b, tree: data, difference: b ? firstDifference(a, b) : null});
    store.set(within(next));
    views.all();
    return true;
  }

  async function model(sequence, number) {
    if (number < 0) return null;
    const key = `${sequence} ${number}`;
    if (!models.has(key)) {
      const found = episodeModel(index, await tree(`sequence-${sequence}`), number);
      if (models.size >= 4) models.delete(models.keys().next().value);
      models.set(key, found);
    }
    return models.get(key);
  }

  // What a view may hold in this episode; what does not exist in it is dropped.
  function within(next) {
    const {episode, slots} = x.a, count = x.tree.workloads.name.length;
    const below = (value, limit) => (value < limit ? value : -1);
    const decision = below(next.decision, episode.slot.length);
    return {...next, decision, slot: Math.max(0, Math.min(next.slot, slots - 1)),
      workload: below(decision >= 0 ? episode.workload[decision] : next.workload, count)};
  }

  async function follow(text) {
    const {found, bad} = store.read(text);
    const costliest = index.costliest.find(one => one.scheduler === (found.a || 0));
    const asked = {...x.view, sequence: costliest ? costliest.sequence : 0, ...found};
    if (asked.b === asked.a) asked.b = -1;
    await show({...asked, decision: -1});
    // Decisions and workloads can be judged only now that the episode is there.
    const again = store.read(text);
    if (again.found.decision !== undefined) x.chooseDecision(again.found.decision, pick(again.found, ["slot", "machine", "workload"]));
    else if (["slot", "machine", "workload"].every(name => found[name] === undefined) && x.a.byRegret.length) x.chooseDecision(x.a.byRegret[0]);
    else x.set(pick(again.found, ["workload"]));
    note([...new Set([...bad, ...again.bad])]);
  }

  store.listen((view, changed) => {
    x.view = view;
    views.some(changed);
  });
  addEventListener("hashchange", () => { if (location.hash !== store.fragment()) follow(location.hash).catch(broken); });
  themeListeners.push(views.all);
  let width = byId("maps").clientWidth;
  new ResizeObserver(() => {
    if (width === byId("maps").clientWidth) return;
    width = byId("maps").clientWidth;
    requestAnimationFrame(views.all);
  }).observe(byId("maps"));

  if (index.sequences.length && names.length) await follow(location.hash);
  else {
    byId("verdict").textContent = "There is no episode in this file.";
    for (const id of ["drawings", "reasons", "costs"]) byId(id).hidden = true;
  }
  if (x.a) views.all();
  ready();
}

const pick = (from, names) => Object.fromEntries(names.filter(name => from[name] !== undefined).map(name => [name, from[name]]));

function makeViews(x, show) {
  const bar = makeBar(x, show), clock = makeClock(x);
  const maps = ["a", "b"].map(side => makeHeatmap(byId(`map-${side}`), x, side));
  const machines = ["a", "b"].map(side => makeMachine(byId(`machine-${side}`), x, side));
  const workload = makeWorkload(byId("workload"), x), decision = makeDecision(byId("decision"), x);
  const decisions = makeDecisions(byId("decisions"), x), verdict = makeVerdict(byId("verdict"), x);
  const compare = makeCompare(byId("compare"), x);

  function all() {
    if (!x.a) return;
    byId("map-b").hidden = !x.b;
    document.body.classList.toggle("compared", Boolean(x.b));
    for (const view of [bar, verdict, ...maps.map(map => ({update: map.draw})), ...machines, workload, decision, decisions]) view.update();
    compare.update(true);
    clock.show();
    say();
  }

  function some(changed) {
    if (!x.a) return;
    const any = names => names.split(" ").some(name => changed.has(name));
    if (any("sequence a b")) return all();
    if (any("shown")) for (const map of maps) map.draw();
    if (any("shown resource")) bar.update();
    for (const map of maps) map.overlay();
    for (const machine of machines) machine.update();
    workload.update();
    if (any("decision machine workload") || x.view.decision >= 0) decision.update();
    if (any("decision")) decisions.mark();
    compare.update(false);
    clock.show();
    say();
  }

  // For those who do not see the drawings.
  function say() {
    if (clock.isPlaying()) return;
    const {machine, slot} = x.view;
    byId("said").textContent = machine < 0 || !x.a.slots ? "" : cellWords(x.a, {machine, slot}).join(". ");
  }

  startKeys(byId("keys"), byId("help"), [
    ["ArrowLeft ArrowRight", "one slot back, forward", [() => clock.move(-1), () => clock.move(1)]],
    ["k j Shift+ArrowLeft Shift+ArrowRight", "previous, next decision",
      [-1, 1, -1, 1].map(way => () => clock.step(way))],
    ["c", "to the next costliest decision", [decisions.costliest]],
    ["Space", "play or pause", [clock.toggle]],
    ["ArrowUp ArrowDown", "to the machine above, to the one below", [() => machineStep(-1), () => machineStep(1)]],
    ["b", "swap schedulers A and B", [bar.swap]],
    ["/", "search for a workload or a machine", [() => byId("search").focus()]],
    ["Escape", "clear the selection", [() => x.set({machine: -1, workload: -1, decision: -1})]],
  ], () => x.a !== null);

  function machineStep(way) {
    const count = x.a.machines, m = x.view.machine;
    if (count) x.set({machine: m < 0 ? 0 : Math.max(0, Math.min(count - 1, m + way))});
  }

  return {all, some};
}
