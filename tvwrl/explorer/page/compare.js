// What the episode cost in a sentence, and two schedulers beside each other: where they part first, and their difference
// in cost as it adds up.

function makeVerdict(element, x) {
  function update() {
    const {a, b} = x, cost = costOf(a), parts = costParts(a);
    const largest = parts.indexOf(Math.max(...parts)), k = a.byRegret.length && matters(a, a.byRegret[0]) ? a.byRegret[0] : -1;
    const words = [make("strong", null, a.scheduler.name), ` cost ${amount(cost)} over ${plural(a.episode.penalties.shape[0], "slot")}`];
    words.push(cost > 0 ? `, ${amount(parts[largest])} of it for ${x.index.terms[largest]}. ` : ". ");
    const unplaced = a.episode.machine.reduce((sum, m) => sum + (m < 0), 0);
    if (unplaced) words.push(`${plural(unplaced, "workload was", "workloads were")} never placed, and what never ran costs nothing: this schedule is not complete. `);
    if (k >= 0) {
      const all = a.regret.length, known = a.regret.reduce((sum, value) => sum + !Number.isNaN(value), 0);
      words.push(known < all ? `Alternatives were simulated for ${number(known)} of its ${number(all)} decisions. The costliest of these, `
        : "Its costliest decision, ", link(`slot ${number(a.episode.slot[k])}, ${decisionWords(a, k).replace(/ waits$/, " left waiting")}`, () => x.chooseDecision(k)),
        `, cost ${amount(a.regret[k])} more than ${bestOf(a, k)}${mostOf(a, k)}. `);
    } else if (a.episode.slot.length) {
      words.push(`${capital(a.episode.why_none_is_costly)}. `);
    }
    if (b) words.push(...against(a, b, cost));
    fill(element, ...words);
    drawCosts();
    drawAll();
  }

  const costParts = model => x.index.terms.map((_, term) => costOf(model, term));

  function bestOf(model, k) {
    const m = model.episode.machines[k * model.episode.machines.shape[1] + model.best[k]];
    return `${machineWords(x.index, m)} would have`;
  }

  // ", 60,000 of it for overshoot" where one term is more than half.
  function mostOf(a, k) {
    const parts = regretParts(a, k), term = parts.indexOf(Math.min(...parts)), most = -parts[term];
    if (most > a.regret[k]) return `, mainly for ${x.index.terms[term]}`;
    return most > a.regret[k] / 2 ? `, ${amount(most)} of it for ${x.index.terms[term]}` : "";
  }

  function against(a, b, cost) {
    const other = costOf(b), by = costParts(b).map((value, i) => value - costParts(a)[i]), difference = other - cost;
    if (!by.some(value => Math.abs(value) > 1e-9 * Math.max(1, cost))) return [make("strong", null, b.scheduler.name), " cost the same."];
    return [make("strong", null, b.scheduler.name), ` cost ${amount(other)}, which is ${amount(Math.abs(difference))} ${difference < 0 ? "less" : "more"}: `,
      byTerm(by, x.index.terms), "."];
  }

  // The four terms as a small table.
  function drawCosts() {
    const models = [x.a, x.b].filter(Boolean);
    fill(byId("costs"), make("thead", null, make("tr", null, make("th", {scope: "col"}, "Cost"),
      ...x.index.terms.map(term => make("th", {scope: "col", class: "number"}, capital(term))), make("th", {scope: "col", class: "number"}, "Total"))),
    make("tbody", null, ...models.map((model, i) => make("tr", null,
      make("th", {scope: "row"}, x.b ? make("span", {class: `side ${"ab"[i]}`}, "AB"[i]) : "", ` ${model.scheduler.name}`),
      ...[...costParts(model), costOf(model)].map(value => make("td", {class: "number"}, amount(value)))))));
  }

  // Every scheduler, the cheapest first, those that left workloads unplaced last: what never ran costs nothing, so they
  // have no total; the buttons choose what A is compared with.
  function drawAll() {
    const {episodes} = x.index.sequences[x.view.sequence], sum = one => one.penalties.reduce((total, value) => total + value, 0);
    const order = (one, other) => one.unplaced - other.unplaced || sum(one) - sum(other);
    const head = ["Scheduler", "Knows", ...x.index.terms.map(capital), "Total", "Unplaced", ""];
    fill(byId("all-schedulers"),
      make("thead", null, make("tr", null, ...head.map((text, i) => make("th", {scope: "col", class: i > 1 ? "number" : null}, text)))),
      make("tbody", null, ...[...episodes].sort(order).map(one => {
        const {name, group} = x.index.schedulers[one.scheduler], isA = one.scheduler === x.view.a, isB = one.scheduler === x.view.b;
        return make("tr", {"aria-current": isA ? "true" : null}, make("th", {scope: "row"}, short(name)), make("td", {class: "quiet"}, short(group)),
          ...[...one.penalties, one.unplaced ? NaN : sum(one), one.unplaced].map(value => make("td", {class: "number"}, Number.isNaN(value) ? "-" : amount(value))),
          make("td", null, isA ? "A" : isB ? "B" : link("compare", () => x.go({b: one.scheduler}), {"aria-label": `Compare with ${name}`})));
      })));
  }

  return {update};
}

function differenceWords(x) {
  const {slot, workload} = x.difference, name = short(x.tree.workloads.name[workload]);
  const did = model => (placedAt(model, workload, slot) < 0 ? "waits" : machineWords(x.index, placedAt(model, workload, slot)));
  return `slot ${number(slot)}, ${name}: ${did(x.a)} under A, ${did(x.b)} under B`;
}

function makeCompare(figure, x) {
  const words = byId("difference-words"), plot = byId("difference"), parting = byId("parting");
  let chart = null, sums = null;

  function update(full) {
    figure.hidden = !x.b || !x.a.slots;
    parting.hidden = !x.b;
    if (!x.b) return;
    if (x.difference) {
      fill(parting, make("span", {class: "part-mark", "aria-hidden": "true"}), "First difference: ",
        link(differenceWords(x), () => x.set({slot: x.difference.slot, workload: x.difference.workload, decision: decisionOf(x.a, x.difference.workload)})));
    } else fill(parting, "A and B do the same throughout.");
    if (!x.a.slots) return;
    if (full || !chart) build();
    else chart.redraw(false);
    const now = sums.map(line => line[x.view.slot + 1]);
    fill(words, `Up to slot ${number(x.view.slot)} `, Math.abs(now[0]) < 1e-9 ? "A and B cost the same."
      : `B costs ${amount(Math.abs(now[0]))} ${now[0] > 0 ? "more" : "less"} than A: ${byTerm(now.slice(1), x.index.terms)}.`);
  }

  // Total and terms, B minus A, added up; the value at t is of all slots before t.
  function added() {
    const {slots} = x.a, lines = [0, 1, 2, 3, 4].map(() => new Array(slots + 1).fill(0));
    const at = (model, t, term) => model.episode.penalties[t * model.episode.penalties.shape[1] + term] || 0;
    for (let t = 0; t < slots; t++) {
      lines[0][t + 1] = lines[0][t];
      for (let term = 0; term < 4; term++) {
        const difference = at(x.b, t, term) - at(x.a, t, term);
        lines[term + 1][t + 1] = lines[term + 1][t] + difference;
        lines[0][t + 1] += difference;
      }
    }
    return lines;
  }

  function build() {
    if (chart) chart.destroy();
    sums = added();
    let low = 0, high = 0;
    for (const line of sums) for (const value of line) [low, high] = [Math.min(low, value), Math.max(high, value)];
    const pad = (high - low) * 0.06 || 1, {slots} = x.a;
    const options = chartOptions(plot.clientWidth, 170, [0, slots], () => [low - pad, high + pad]);
    const dashes = [[], [2, 3], [8, 4], [], [8, 3, 2, 3]];
    options.series = [{}, ...sums.map((_, i) => ({
      stroke: colour(i ? `term-${i}` : "ink"), width: i ? 1.5 : 2.5, dash: dashes[i], points: {show: false},
    }))];
    options.hooks.draw = [made => nowLine(made, x.view.slot), zero];
    chart = new uPlot(options, [Array.from({length: slots + 1}, (_, t) => t), ...sums], plot);
    fill(byId("difference-legend"), ...["total", ...x.index.terms].map((name, i) =>
      make("span", null, make("span", {class: `key line-${i}`, "aria-hidden": "true"}), name)));
  }

  function zero(made) {
    const at = Math.round(made.valToPos(0, "y", true));
    made.ctx.fillStyle = colour("quiet");
    made.ctx.fillRect(made.bbox.left, at, made.bbox.width, devicePixelRatio);
  }

  return {update};
}
