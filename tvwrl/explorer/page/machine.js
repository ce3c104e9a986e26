// The chosen machine: its load stacked by workload in the colours of their classes, capacity, and the forecast's band
// from the current slot beside what came.

function makeMachine(figure, x, side) {
  const title = make("h3", null), now = make("p", {class: "now"}), plot = make("div", {class: "plot"});
  fill(figure, make("div", {class: "heading"}, title), now, plot);
  let chart = null, shown = "";

  function update() {
    const model = x[side];
    figure.hidden = !model || !model.slots || x.view.machine < 0;
    if (figure.hidden) return;
    const {machine, resource} = x.view, d = resource, data = lines(model, machine, d);
    fill(title, x.b ? make("span", {class: `side ${side}`}, side.toUpperCase()) : "",
      `${x.b ? " " : ""}Machine ${machine}: ${x.index.resources[d]} by workload`);
    fill(now, ...state(model, machine, d));
    byId("ghost-key").hidden = !isAlternative(x, machine);
    const key = [model.number, x.view.sequence, machine, d, plot.clientWidth, isDark(), isAlternative(x, machine)].join();
    if (key === shown && chart) chart.setData(data);
    else {
      if (chart) chart.destroy();
      chart = build(model, data);
      shown = key;
    }
  }

  // In words: what runs there in the current slot; a click chooses the workload.
  function state(model, m, d) {
    const {slot} = x.view, here = runsAt(model, m, slot), used = loadAt(model, m, d, slot), most = capacityOf(model, m, d);
    const parts = [`Slot ${number(slot)}: ${amount(used)} of ${amount(most)} used (${percent(used / most)}`,
      isOver(model, m, slot, d) ? ", overshoot). " : "). "];
    if (!here.length) return [...parts, "Nothing runs here."];
    parts.push("Running: ");
    here.slice(0, 12).forEach((i, n) => parts.push(n ? ", " : "", link(short(x.tree.workloads.name[i], 30),
      () => x.set({workload: i, decision: decisionOf(x.a, i)}))));
    return [...parts, here.length > 12 ? ` and ${here.length - 12} more.` : "."];
  }

  // x, capacity, expected load, and the band around it; a value holds until the next slot.
  function lines(model, m, d) {
    const {slots} = model, {slot} = x.view, here = runsAt(model, m, slot), rows = Array.from({length: slots + 1}, (_, t) => t);
    const expected = new Array(slots + 1).fill(null), low = expected.slice(), high = expected.slice();
    for (let ahead = 1; slot + ahead < slots && here.length && model.tree.forecast; ahead++) {
      let sum = backgroundAt(model, m, d, slot + ahead), variance = 0, known = true;
      for (const i of here) {
        const found = forecastAt(model.tree, i, slot - model.episode.start[i] + 1, ahead, d, model.resources);
        if (!found) known = false;
        else [sum, variance] = [sum + found[0], variance + found[1]];
      }
      if (!known) break;
      const t = slot + ahead, around = Math.sqrt(variance);
      [expected[t], low[t], high[t]] = [sum, Math.max(0, sum - around), sum + around];
      [expected[t + 1], low[t + 1], high[t + 1]] = [expected[t], low[t], high[t]];
    }
    return [rows, new Array(slots + 1).fill(capacityOf(model, m, d)), expected, low, high];
  }

  function build(model, data) {
    const m = x.view.machine, d = x.view.resource, {slots} = model;
    let most = capacityOf(model, m, d) * 1.08;
    for (let t = 0; t < slots; t++) most = Math.max(most, (loadAt(model, m, d, t) + (isAlternative(x, m) ? x.index.peak_units : 0)) * 1.05);
    const options = chartOptions(plot.clientWidth, 190, [0, slots], () => [0, most || 1]);
    const steps = uPlot.paths.stepped({align: 1});
    const band = {stroke: colour("expected-edge"), width: 1, paths: steps, points: {show: false}};
    options.series = [{},
      {stroke: colour("limit"), width: 1.5, dash: [6, 4], points: {show: false}},
      {stroke: colour("expected"), width: 2, paths: steps, points: {show: false}}, band, band];
    options.bands = [{series: [4, 3], fill: colour("expected-band")}];
    options.hooks.drawAxes = [chart => stacks(chart, model, m, d)];
    options.hooks.draw = [chart => nowLine(chart, x.view.slot)];
    const made = new uPlot(options, data, plot);
    made.over.addEventListener("click", event => choose(made, event, model));
    made.over.addEventListener("pointermove", event => {
      const hit = below(made, event, model);
      x.tip.show(event, hit.i < 0 ? null : [short(x.tree.workloads.name[hit.i], 60), `${x.index.resources[d]} ${amount(hit.value)} in slot ${number(hit.t)}`]);
    });
    made.over.addEventListener("pointerleave", () => x.tip.hide());
    return made;
  }

  function stacks(chart, model, m, d) {
    const {ctx} = chart, {tree, slots} = model, work = tree.workloads, {workload} = x.view;
    const at = Array.from({length: slots + 1}, (_, t) => Math.round(chart.valToPos(t, "x", true)));
    const base = new Float64Array(slots), y = value => chart.valToPos(value, "y", true);
    const paint = (t, value, fillStyle, edge) => {
      const top = y(base[t] + value), height = y(base[t]) - top;
      ctx.fillStyle = fillStyle;
      ctx.fillRect(at[t], top, at[t + 1] - at[t], height);
      ctx.fillStyle = edge;
      if (height > 3) ctx.fillRect(at[t], top, at[t + 1] - at[t], 1);
      base[t] += value;
    };
    ctx.save();
    if (tree.background) for (let t = 0; t < slots; t++) paint(t, backgroundAt(model, m, d, t), colour("background"), colour("paper"));
    const chosen = [], isHere = model.runs[m].some(({i}) => i === workload);
    for (const {i, begin, end} of model.runs[m]) {
      ctx.globalAlpha = isHere && i !== workload ? 0.45 : 1;
      const start = model.episode.start[i];
      for (let t = begin; t < end; t++) {
        const value = work.demand[(work.offset[i] + t - start) * model.resources + d];
        const group = work.label[work.offset[i] + i + t - start + 1];
        if (i === workload) chosen.push([t, base[t], base[t] + value]);
        paint(t, value, x.index.class_colours[group - 1] || colour("quiet"), colour("paper"));
      }
    }
    ctx.globalAlpha = 1;
    if (chosen.length) outline(ctx, chosen.map(([t, low, high]) => [at[t], at[t + 1], y(high), y(low)]));
    else ghost(ctx, model, m, d, (t, value) => [at[t], at[t + 1], y(base[t] + value), y(base[t])]);
    ctx.restore();
  }

  // An alternative of the chosen decision: the load if the workload had come here and nothing else had changed.
  function ghost(ctx, model, m, d, box) {
    if (!isAlternative(x, m) || side !== "a") return;
    const {workload, decision} = x.view, work = x.tree.workloads, start = model.episode.slot[decision], boxes = [];
    for (let n = 0; n < work.length[workload] && start + n < model.slots; n++) {
      boxes.push(box(start + n, work.demand[(work.offset[workload] + n) * model.resources + d]));
    }
    ctx.fillStyle = colour("expected-band");
    for (const [left, right, top, low] of boxes) ctx.fillRect(left, top, right - left, low - top);
    ctx.setLineDash([5 * devicePixelRatio, 3 * devicePixelRatio]);
    if (boxes.length) outline(ctx, boxes, false);
  }

  function outline(ctx, boxes, closed = true) {
    ctx.strokeStyle = colour("ink");
    ctx.lineWidth = (closed ? 1 : 1.5) * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(boxes[0][0], boxes[0][3]);
    for (const [left, right, top] of boxes) {
      ctx.lineTo(left, top);
      ctx.lineTo(right, top);
    }
    if (!closed) ctx.lineTo(boxes[boxes.length - 1][1], boxes[boxes.length - 1][3]);
    else {
      for (const [left, right, , low] of boxes.reverse()) {
        ctx.lineTo(right, low);
        ctx.lineTo(left, low);
      }
      ctx.closePath();
    }
    ctx.stroke();
  }

  // The workload below the pointer, its demand and the slot.
  function below(chart, event, model) {
    const box = chart.over.getBoundingClientRect(), m = x.view.machine, d = x.view.resource, work = x.tree.workloads;
    const t = Math.max(0, Math.min(model.slots - 1, Math.floor(chart.posToVal(event.clientX - box.left, "x"))));
    const value = chart.posToVal(event.clientY - box.top, "y");
    let base = model.tree.background ? backgroundAt(model, m, d, t) : 0;
    for (const i of runsAt(model, m, t)) {
      const own = work.demand[(work.offset[i] + t - model.episode.start[i]) * model.resources + d];
      if (value >= base && value < base + own) return {t, i, value: own};
      base += own;
    }
    return {t, i: -1};
  }

  function choose(chart, event, model) {
    const {t, i} = below(chart, event, model);
    x.set(i < 0 ? {slot: t} : {slot: t, workload: i, decision: decisionOf(x.a, i)});
  }

  return {update};
}

// Whether the chosen decision is about the chosen workload and could have sent it to machine m, but did not.
function isAlternative({a, view}, m) {
  const {decision, workload} = view;
  if (decision < 0 || a.episode.workload[decision] !== workload || a.episode.chosen[decision] === m) return false;
  const width = a.episode.machines.shape[1];
  return a.episode.machine[workload] !== m && a.episode.machines.subarray(decision * width, (decision + 1) * width).includes(m);
}

const backgroundAt = ({tree, machines, resources}, m, d, t) =>
  (tree.background ? tree.background[((t % tree.background.shape[0]) * machines + m) * resources + d] : 0);

function nowLine(chart, slot) {
  const {ctx, bbox} = chart, at = Math.round(chart.valToPos(slot + 0.5, "x", true));
  if (at < bbox.left || at > bbox.left + bbox.width) return;
  ctx.fillStyle = colour("now");
  ctx.fillRect(at - 1, bbox.top, 2 * devicePixelRatio, bbox.height);
}
