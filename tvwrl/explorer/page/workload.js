// The life of the chosen workload: when it came, how long it waited, what it asked for, what it used, and what was
// expected when it was placed.

function makeWorkload(figure, x) {
  const title = make("h3", null), words = make("p", null), plot = make("div", {class: "plot"});
  fill(figure, make("div", {class: "heading"}, title), words, plot);
  let chart = null, shown = "";

  function update() {
    const {workload, resource, sequence} = x.view;
    figure.hidden = workload < 0 || !x.a.slots;
    if (figure.hidden) return;
    fill(title, `Workload ${short(x.tree.workloads.name[workload], 60)}: ${x.index.resources[resource]} over its life`);
    fill(words, ...story(workload));
    const key = [x.a.number, sequence, workload, resource, plot.clientWidth, isDark()].join();
    if (key === shown && chart) chart.redraw(false);
    else {
      if (chart) chart.destroy();
      chart = build(workload, resource);
      shown = key;
    }
  }

  function story(i) {
    const work = x.tree.workloads, arrival = work.arrival[i], group = work.label[work.offset[i] + i];
    const request = x.index.resources.map((name, d) => [name, work.request[i * x.a.resources + d]]);
    const parts = [`It arrived in slot ${number(arrival)}. `, ...placed(x.a, i)];
    if (x.b) parts.push(...placed(x.b, i));
    const declared = request.filter(([, value]) => Number.isFinite(value));
    parts.push(declared.length ? `It requested ${listed(declared.map(([name, value]) => `${amount(value)} ${name}`))}. ` : "It declared no request. ");
    if (group) parts.push(`At its arrival it was in class ${group} of ${x.index.classes}. `);
    if (work.source[i] && work.source[i] !== work.name[i]) parts.push(`Its usage is that of ${short(work.source[i], 60)} in the trace.`);
    return parts;
  }

  function placed(model, i) {
    const m = model.episode.machine[i], name = x.b ? model.scheduler.name : "", wait = model.episode.start[i] - x.tree.workloads.arrival[i];
    const who = name ? `Under ${name} it` : "It";
    if (m < 0) return [`${who} was never placed. `];
    const where = link(`machine ${m}`, () => x.set({machine: m, slot: model.episode.start[i]}));
    return [`${who} ${wait > 0 ? `waited ${plural(wait, "slot")}, then ran on` : "ran immediately on"} `, where,
      ` for ${plural(x.tree.workloads.length[i], "slot")} (${duration(x.tree.workloads.length[i] * x.index.slot_seconds)}). `,
      ...moved(model, i)];
  }

  function moved({episode: {stays, start}}, i) {
    const later = stays ? Array.from(stays.workload.keys()).filter(k => stays.workload[k] === i && stays.begin[k] > start[i]) : [];
    return later.flatMap(k => [`In slot ${number(stays.begin[k])} it moved to `,
      link(`machine ${stays.machine[k]}`, () => x.set({machine: stays.machine[k], slot: stays.begin[k]})), ". "]);
  }

  function build(i, d) {
    const {tree, a} = x, work = tree.workloads, arrival = work.arrival[i], ran = a.episode.machine[i] >= 0;
    const start = ran ? a.episode.start[i] : Math.max(a.slots, arrival), end = ran ? endOf(a, i) : start, count = end - arrival + 1;
    const rows = Array.from({length: count}, (_, n) => arrival + n), none = () => new Array(count).fill(null);
    const used = none(), asked = none(), expected = none(), low = none(), high = none();
    const request = work.request[i * a.resources + d];
    for (let t = start; t < end; t++) used[t - arrival] = work.demand[(work.offset[i] + t - start) * a.resources + d];
    if (ran) used[count - 1] = used[count - 2];
    if (Number.isFinite(request)) asked.fill(request);
    for (let t = start; t < end; t++) {
      const found = forecastAt(tree, i, 0, t - start + 1, d, a.resources);
      if (!found) break;
      const around = Math.sqrt(found[1]);
      for (const n of [t - arrival, t - arrival + 1]) [expected[n], low[n], high[n]] = [found[0], Math.max(0, found[0] - around), found[0] + around];
    }
    const most = 1.08 * Math.max(1e-9, ...[used, asked, high].map(list => list.reduce((most, v) => Math.max(most, v), 0)));
    const pad = Math.max(1, (end - arrival) * 0.02), steps = uPlot.paths.stepped({align: 1});
    const options = chartOptions(plot.clientWidth, 160, [arrival - pad, end + pad], () => [0, most]);
    const line = (stroke, width, more) => ({stroke: colour(stroke), width, paths: steps, points: {show: false}, ...more});
    options.series = [{}, line("expected", 1.5), line("expected-edge", 1), line("expected-edge", 1),
      line("limit", 1.5, {dash: [6, 4]}), line("accent", 2.5)];
    options.bands = [{series: [3, 2], fill: colour("expected-band")}];
    options.hooks.drawAxes = [made => shade(made, arrival, start)];
    options.hooks.draw = [made => nowLine(made, x.view.slot)];
    return new uPlot(options, [rows, expected, low, high, asked, used], plot);
  }

  function shade(made, from, to) {
    if (to <= from) return;
    const left = made.valToPos(from, "x", true), right = made.valToPos(to, "x", true);
    made.ctx.fillStyle = colour("queue-shade");
    made.ctx.fillRect(left, made.bbox.top, right - left, made.bbox.height);
    if (right - left < 50 * devicePixelRatio) return;
    made.ctx.fillStyle = colour("quiet");
    made.ctx.textAlign = "left";
    made.ctx.textBaseline = "top";
    made.ctx.font = `${11 * devicePixelRatio}px ${colour("font")}`;
    made.ctx.fillText("waits", left + 5, made.bbox.top + 5);
  }

  return {update};
}
