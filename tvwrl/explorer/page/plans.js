// The page of plans: reads the fragment, loads the planners' plans, tells the views what changed.

async function start(index) {
  speak(index);
  const names = index.planners.map(one => one.name), models = new Map(), {machines, resources} = index;
  const kinds = machines.capacity.shape[0], shownNames = [...resources, "fullest"];
  const x = {index, a: null, b: null, kinds, tip: makeTip(byId("tip"))};
  const oneOf = (list, usual) => ({read: text => (list.includes(text) ? text : undefined), write: value => (value === usual || value === null ? null : value)});
  const store = makeStore({
    a: named(() => names),
    b: named(() => names),
    machine: machineField(index, () => (x.a ? x[x.shownSide()].machines : 1e9)),
    application: whole(() => index.applications.name.length),
    side: oneOf(["a", "b"], "a"),
    time: {...whole(() => index.times), write: value => (index.times > 1 && value ? String(value) : null)},
    shown: {
      read: text => (shownNames.includes(text) ? (text === "fullest" ? text : resources.indexOf(text)) : undefined),
      write: value => (value === "fullest" ? null : resources[value]),
    },
    resource: {...named(() => resources), write: value => (value > 0 ? resources[value] : null)},
    order: oneOf(["number", "fill"], "number"),
    grouped: oneOf(["yes", "no"], null),
    list: oneOf(LIST_NAMES, null),
  }, {a: index.best, b: -1, machine: -1, application: -1, side: "a", time: 0, shown: "fullest", resource: 0, order: "number", grouped: null, list: null});
  x.store = store;
  x.view = store.view;
  x.set = store.set;
  // From a link or the search: what was chosen comes into sight.
  x.choose = changes => {
    store.set(changes);
    requestAnimationFrame(() => requestAnimationFrame(() => {
      const section = byId(changes.application === undefined ? "machine" : "application"), {top} = section.getBoundingClientRect();
      if (!section.hidden && (top < 0 || top > innerHeight - 160)) section.scrollIntoView({block: "nearest"});
    }));
  };
  x.shownSide = () => (x.b ? x.view.side : "a");
  x.grouped = () => kinds > 1 && (x.view.grouped === null ? kinds <= 40 && x.a.machines >= 8 * kinds : x.view.grouped === "yes");

  const views = makePlanViews(x, show);
  let turn = 0;

  // Loads what `next` asks for and shows it.
  async function show(next) {
    const mine = ++turn;
    document.body.classList.add("busy");
    const [a, b] = await Promise.all([model(next.a), model(next.b)]);
    if (mine !== turn) return;
    document.body.classList.remove("busy");
    Object.assign(x, {a, b});
    store.set({...next, machine: next.machine < (b && next.side === "b" ? b : a).machines ? next.machine : -1});
    x.view = store.view;
    views.all();
  }

  async function model(number) {
    if (number < 0) return null;
    if (!models.has(number)) {
      const found = planModel(index, await tree(`sequence-${number}`), number);
      if (models.size >= 4) models.delete(models.keys().next().value);
      models.set(number, found);
    }
    return models.get(number);
  }

  async function follow(text) {
    const {found} = store.read(text), other = index.best === found.b ? names.findIndex((_, k) => k !== found.b) : index.best;
    const a = found.a === undefined ? Math.max(0, other) : found.a;
    await show({...x.view, ...found, a, b: found.b === undefined || found.b === a ? -1 : found.b});
    x.view = store.view;
    const again = store.read(text); // the machine can be judged only now that the plan is there
    if (again.found.machine === undefined) x.set({machine: found.machine === undefined ? views.first() : -1});
    note(again.bad);
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
  await follow(location.hash);
  ready();
}

// A machine by its name or number, as everywhere on the page, kept as its index.
function machineField(index, most) {
  const {name} = index.machines, places = new Map((name || []).map((one, m) => [one, m]));
  return {
    read: text => {
      const m = name ? places.get(text) : /^[1-9]\d{0,8}$/.test(text) ? Number(text) - 1 : undefined;
      return m < most() ? m : undefined;
    },
    write: value => (value === null || value < 0 ? null : machineName(index, value, Infinity)),
  };
}

function makePlanViews(x, show) {
  const {index} = x, bar = makePlanBar(x, show), fleets = ["a", "b"].map(side => makeFleet(byId(`map-${side}`), x, side));
  const contents = makeContents(x), application = makeApplication(x), lists = makePlanLists(x), slider = byId("time");
  const short20 = name => short(name, 20);
  choice(byId("shown"), [...index.resources.map((name, d) => [d, short20(name)]), ["fullest", "fullest resource"]],
    value => x.set(value === "fullest" ? {shown: value} : {shown: value, resource: value}));
  choice(byId("resource"), index.resources.map((name, d) => [d, short20(name)]), value => x.set({resource: value}));
  choice(byId("order"), [["number", index.machines.name ? "as listed" : "by number"], ["fill", "fullest first"]], value => x.set({order: value}));
  byId("grouped").addEventListener("change", event => x.set({grouped: event.target.checked ? "yes" : "no"}));
  byId("grouped-label").hidden = x.kinds < 2;
  const several = index.times > 1;
  byId("clock").hidden = !several;
  byId("shown-words").textContent = several ? "Colour:" : "Sort by:";
  slider.max = String(index.times - 1);
  slider.addEventListener("input", () => x.set({time: Number(slider.value)}));
  slider.addEventListener("keydown", event => { if (event.key.startsWith("Arrow")) event.stopPropagation(); });

  function tools() {
    const {view} = x;
    press(byId("shown"), view.shown);
    press(byId("resource"), view.resource);
    press(byId("order"), view.order);
    const bySize = several || view.order === "fill";
    byId("shown").hidden = byId("shown-words").hidden = !bySize || index.resources.length < 2;
    byId("grouped").checked = x.grouped();
    byId("ramp").style.background = `linear-gradient(to right, ${RAMPS[isDark() ? "dark" : "light"].join(", ")})`;
    const both = [x.a, x.b].filter(Boolean);
    byId("fault-key").hidden = !both.some(model => model.faults.size);
    byId("over-key").hidden = !both.some(model => model.over.size);
    clock();
  }

  function clock() {
    slider.value = String(x.view.time);
    const words = `Time ${number(x.view.time + 1)} of ${number(index.times)}`;
    byId("time-words").textContent = words;
    slider.setAttribute("aria-valuetext", words);
    byId("mean-key").hidden = !fleets[0].shares();
    byId("chosen-key").hidden = x.view.application < 0;
  }

  function all() {
    if (!x.a) return;
    byId("map-b").hidden = !x.b;
    bar.update();
    for (const fleet of fleets) fleet.draw();
    tools();
    details();
  }

  function details() {
    contents.update();
    application.update();
    lists.update();
    const {machine, time} = x.view;
    byId("said").textContent = machine < 0 || machine >= x[x.shownSide()].machines ? "" : machineLines(x[x.shownSide()], machine, several ? time : -1).join(". ");
  }

  function some(changed) {
    if (!x.a) return;
    const any = text => text.split(" ").some(name => changed.has(name));
    if (any("a b")) return all();
    if (any("shown order grouped")) for (const fleet of fleets) fleet.draw();
    else for (const fleet of fleets) fleet.overlay();
    tools();
    details();
  }

  const toMachine = way => x.set({machine: fleets[x.shownSide() === "b" ? 1 : 0].beside(x.view.machine, way)});
  const toTime = way => x.set({time: Math.max(0, Math.min(index.times - 1, x.view.time + way))});
  const jump = () => Math.max(1, Math.round(x.a.machines / 20));
  startKeys(byId("keys"), byId("help"), [
    ["ArrowLeft ArrowRight", "to the machine on the left, on the right", [() => toMachine(-1), () => toMachine(1)]],
    ["Shift+ArrowLeft Shift+ArrowRight", "5 % of the machines back, forward", [() => toMachine(-jump()), () => toMachine(jump())]],
    ...(several ? [["ArrowUp ArrowDown", "one time earlier, one time later", [() => toTime(-1), () => toTime(1)]]] : []),
    ["f", `fullest machines first, or ${index.machines.name ? "as listed" : "by number"}`, [() => x.set({order: x.view.order === "fill" ? "number" : "fill"})]],
    ["b", "swap planners A and B", [bar.swap]],
    ["/", "search for an application or a machine", [() => byId("search").focus()]],
    ["Escape", "clear the selection", [() => x.set({machine: -1, application: -1})]],
  ], () => x.a !== null);

  // What to show at first: a machine that violates a constraint, or the fullest.
  function first() {
    const {a} = x, wrong = [...a.faults.keys()].filter(m => m >= 0);
    if (wrong.length) return wrong[0];
    let found = -1;
    for (let m = 0; m < a.machines; m++) if (a.replicas[m] && (found < 0 || shareAt(a, m, "fullest", -1) > shareAt(a, found, "fullest", -1) + 1e-9)) found = m;
    return found;
  }

  return {all, some, first};
}
