// The chosen application: where its replicas are, what each needs, which limits it has, and why some are not placed.

const MOST_ROWS = 200;

function makeApplication(x) {
  const section = byId("application"), plot = byId("application-plot");
  let chart = null, shown = "";

  function update() {
    const {index, a} = x, i = x.view.application;
    section.hidden = !a || i < 0;
    if (section.hidden) return;
    byId("application-title").textContent = `Application ${nameOf(index, i, 60)}`;
    fill(byId("application-words"), ...words(i));
    demand(i);
    fill(byId("application-tables"), ...places(i), ...limits(i));
  }

  function words(i) {
    const {index} = x, {applications, groups, blacklist} = index, parts = [];
    const all = applications.replicas[i];
    parts.push(`It has ${plural(all, "replica")}. `);
    for (const model of [x.a, x.b].filter(Boolean)) {
      const rows = model.byApplication.rows(i), left = model.unplaced.get(i), who = x.b ? `In the plan of ${titled(model.planner)}, ` : "";
      const placed = all - (left ? left.replicas : 0), on = `${plural(rows.length, "machine")}`;
      if (placed) parts.push(capital(`${who}${placed === all ? (all === 1 ? "it is" : "they are") : `${number(placed)} ${placed === 1 ? "is" : "are"}`} on ${on}. `));
      if (left) parts.push(make("strong", null, `${plural(left.replicas, "is", "are")} not placed${left.reason ? `: ${left.reason}` : ""}. `));
      const moves = model.moves.get(i) || [], moved = moves.filter(move => move.start >= 0).reduce((sum, move) => sum + move.replicas, 0);
      if (moved) parts.push(`${plural(moved, "running replica moves", "running replicas move")}. `);
    }
    const steady = index.resources.map((_, d) => demandPeak(index, i, d));
    parts.push(`Each needs ${resourceWords(index, steady).join(", ")}${index.times > 1 ? " at most" : ""}. `);
    if (applications.own_limit[i] > 0) parts.push(`At most ${number(applications.own_limit[i])} may share a machine. `);
    if (applications.pinned.includes(i)) parts.push("Replicas that run have to stay where they are. ");
    const e = groups.member.indexOf(i);
    if (e >= 0) parts.push(...together(e));
    const barred = [];
    blacklist.application.forEach((one, k) => { if (one === i) barred.push(blacklist.machine[k]); });
    if (barred.length) parts.push(`Its blacklist names ${plural(barred.length, "machine")}: ${machinesWords(index, barred)}. `);
    return parts;
  }

  // The group of member e: who shares a machine with it.
  function together(e) {
    const {start, member, count} = x.index.groups, b = start.findIndex((from, k) => from <= e && e < start[k + 1]), parts = [];
    for (let other = start[b]; other < start[b + 1]; other++) {
      if (other !== e) parts.push(`${number(count[other])} of `, link(nameOf(x.index, member[other]), () => x.choose({application: member[other]})), ", ");
    }
    if (!parts.length) return [];
    const own = count[e] === 1 ? "each of its replicas shares" : `every ${number(count[e])} of its replicas share`;
    return [`Affinity group: ${own} a machine with `, ...parts.slice(0, -1), ". "];
  }

  function demand(i) {
    const {index} = x, d = x.view.resource;
    plot.hidden = index.times === 1;
    if (plot.hidden) return;
    const key = [i, d, plot.clientWidth, isDark()].join();
    if (key === shown && chart) return chart.redraw(false);
    if (chart) chart.destroy();
    fill(plot, make("h3", null, `${capital(short(index.resources[d], 20))} of a replica over time`));
    const rows = Array.from({length: index.times + 1}, (_, t) => t), values = rows.map(t => demandAt(index, i, d, Math.min(t, index.times - 1)));
    const options = chartOptions(plot.clientWidth, 130, [0, index.times], () => [0, 1.08 * Math.max(...values) || 1]);
    options.series = [{}, {stroke: colour("accent"), width: 2, paths: uPlot.paths.stepped({align: 1}), points: {show: false}}];
    options.hooks.draw = [made => {
      const at = made.valToPos(x.view.time + 0.5, "x", true);
      made.ctx.fillStyle = colour("now");
      made.ctx.fillRect(at - 1, made.bbox.top, 2 * devicePixelRatio, made.bbox.height);
    }];
    chart = new uPlot(options, [rows, values], plot);
    shown = key;
  }

  function places(i) {
    const {index, a, b} = x, machines = new Map(), moved = new Map();
    const rows = Array.from(a.byApplication.rows(i), r => [a.tree.machine[r], a.tree.replicas[r]]);
    const sameNumbers = b && (index.running || index.machines.fixed);
    for (const [m, n] of rows) machines.set(m, [n, 0]);
    if (sameNumbers) for (const r of b.byApplication.rows(i)) machines.set(b.tree.machine[r], [(machines.get(b.tree.machine[r]) || [0])[0], b.tree.replicas[r]]);
    for (const move of a.moves.get(i) || []) if (move.start >= 0) moved.set(move.start, [...(moved.get(move.start) || []), move]);
    const list = [...machines].sort(([m], [other]) => m - other);
    if (!list.length) return [];
    const from = (a.moves.get(i) || []).filter(move => move.start >= 0);
    return [
      make("h3", null, "Where its replicas are"),
      make("div", {class: "wide list", role: "region", "aria-label": "Where its replicas are", tabindex: "0"}, make("table", null,
        make("thead", null, make("tr", null, make("th", {scope: "col"}, "Machine"), make("th", {scope: "col", class: "number"}, sameNumbers ? "Replicas in A" : "Replicas"),
          sameNumbers ? make("th", {scope: "col", class: "number"}, "in B") : null, make("th", {scope: "col", class: "number"}, b ? "How full in A" : "How full"))),
        make("tbody", null, ...list.slice(0, MOST_ROWS).map(([m, [n, other]]) => make("tr", {"aria-current": m === x.view.machine ? "true" : null},
          make("td", null, link(`machine ${machineName(index, m)}`, () => x.choose({machine: m, side: "a"}))), make("td", {class: "number"}, n ? number(n) : "–"),
          sameNumbers ? make("td", {class: "number"}, other ? number(other) : "–") : null,
          make("td", {class: "number"}, m < a.machines ? percent(shareAt(a, m, "fullest", -1)) : "–")))))),
      list.length > MOST_ROWS ? make("p", {class: "quiet"}, `The first ${number(MOST_ROWS)} of ${plural(list.length, "machine")}.`) : "",
      from.length ? make("p", {class: "quiet"}, `Moved: ${from.slice(0, 10).map(({start, end, replicas}) => `${number(replicas)} from ${machineName(index, start)} to ${end < 0 ? "no machine" : machineName(index, end)}`).join(", ")}${from.length > 10 ? ", ..." : ""}.`) : "",
    ];
  }

  function limits(i) {
    const {index, a} = x, {binding} = a.tree, at = new Map();
    if (binding) binding.i.forEach((one, k) => { if (one === i || binding.j[k] === i) at.set(`${one} ${binding.j[k]}`, k); });
    const found = [...limitsFrom(index).rows(i), ...Array.from(limitsInto(index).rows(i)).filter(k => index.limits.i[k] !== i)]
      .map(k => ({i: index.limits.i[k], j: index.limits.j[k], limit: index.limits.limit[k], k: at.get(`${index.limits.i[k]} ${index.limits.j[k]}`)}));
    if (!found.length) return [make("p", {class: "quiet"}, "It has no affinity limits.")];
    const worth = one => (one.k === undefined ? -1 : 1e7 * binding.room[one.k] + binding.machines[one.k]);
    found.sort((one, other) => worth(other) - worth(one));
    return [
      make("h3", null, plural(found.length, "affinity limit")),
      make("div", {class: "wide list", role: "region", "aria-label": "Its affinity limits", tabindex: "0"}, make("table", null, limitHead(),
        make("tbody", null, ...found.slice(0, MOST_ROWS).map(one => make("tr", null, make("td", null, ...limitParts(x, one)),
          ...(one.k === undefined ? [0, 0] : [binding.machines[one.k], binding.room[one.k]]).map(n => make("td", {class: "number"}, n ? number(n) : "–"))))))),
      found.length > MOST_ROWS ? make("p", {class: "quiet"}, `The first ${number(MOST_ROWS)}.`) : "",
    ];
  }

  return {update};
}

const limitHead = () => make("thead", null, make("tr", null, make("th", {scope: "col"}, "Limit"), make("th", {scope: "col", class: "number", title: "Machines on which one more replica would break it"}, "Binds on"),
  make("th", {scope: "col", class: "number", title: "Of these, machines that have the capacity for that replica"}, "of these, with capacity")));
