// The chosen machine: what is on it, stacked by application, what room is left, and which limits it reaches.

const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c6bb1", "#a3842b", "#7f9aa8"];

function makeContents(x) {
  const section = byId("machine"), plot = byId("machine-plot"), canvas = make("canvas", {role: "img"});
  const stage = make("div", {class: "stage"}, canvas);
  let boxes = [];

  function update() {
    const side = x.shownSide(), a = x[side], {index} = x, m = x.view.machine;
    section.hidden = !a || m < 0 || m >= a.machines;
    if (section.hidden) return;
    const contents = contentsOf(a, m), several = index.times > 1;
    fill(byId("machine-title"), x.b ? make("span", {class: `side ${side}`}, side.toUpperCase()) : "", `${x.b ? " " : ""}Machine ${machineName(index, m, 60)}: ${kindWords(index, kindOf(index, m))}`);
    byId("machine-words").textContent = words(a, m, contents);
    fill(byId("machine-faults"), ...(a.faults.get(m) || []).slice(0, 20).map(text => make("li", null, `Violates a constraint: ${faultText(index, m, text)}`)));
    byId("resource-tools").hidden = !several;
    if (several) {
      if (stage.parentNode !== plot) fill(plot, stage);
      stack(a, m, contents);
    } else fill(plot, bars(a, m, contents));
    table(a, m, contents);
    limits(a, m);
  }

  function words(model, m, contents) {
    const {index} = model, several = index.times > 1;
    if (!contents.length) return "No replica is on this machine.";
    const room = index.resources.map((_, d) => Math.max(0, capacityOf(index, m, d) - model.peak[d][m]));
    const cost = index.machines.cost ? ` It costs ${amount(index.machines.cost[kindOf(index, m)])}.` : "";
    const full = index.resources.map((_, d) => d).sort((d, e) => shareAt(model, m, e, -1) - shareAt(model, m, d, -1))[0];
    return `${plural(model.replicas[m], "replica")} of ${plural(contents.length, "application")}.${cost} ` +
      `Fullest: ${short(index.resources[full], 20)}, ${percent(shareAt(model, m, full, -1))} of its capacity${several ? ` at ${timeWords(peakTime(model, m, full))}` : ""}. ` +
      `Room left${several ? " at all times" : ""}: ${resourceWords(index, room).join(", ")}.`;
  }

  function peakTime(model, m, d) {
    for (let t = 0; t < timesOf(model.index, d); t++) if (loadAt(model, m, d, t) === model.peak[d][m]) return t;
    return 0;
  }

  const paint = (k, i) => (x.view.application < 0 || x.view.application === i || !x.a ? COLOURS[k % COLOURS.length] : COLOURS[k % COLOURS.length] + "99");

  // One time: a bar for each resource, a part for each application.
  function bars(model, m, contents) {
    const {index} = model;
    return make("div", {class: "fill"}, ...index.resources.flatMap((name, d) => {
      const most = capacityOf(index, m, d), scale = 100 / Math.max(most, model.peak[d][m]);
      const parts = contents.filter(({i}) => demandAt(index, i, d, 0) > 0).map(({i, n}) => {
        const value = n * demandAt(index, i, d, 0);
        const part = make("button", {type: "button", class: "part", tabindex: "-1", "aria-current": i === x.view.application ? "true" : null,
          title: `${nameOf(index, i)}: ${amount(value)} ${short(name, 20)}, ${plural(n, "replica")}`, "aria-label": `${nameOf(index, i)}: ${amount(value)}`,
          click: () => x.choose({application: i})});
        part.style.width = `${value * scale}%`;
        part.style.background = COLOURS[contents.findIndex(one => one.i === i) % COLOURS.length];
        return part;
      });
      return [make("span", null, short(name, 20)), make("div", {class: "track", role: "group", "aria-label": `${short(name, 20)} by application`}, ...parts),
        make("span", {class: "left"}, `${amount(model.peak[d][m])} of ${amount(most)} (${percent(model.peak[d][m] / most)})`)];
    }));
  }

  // Several times: the load over time, stacked.
  function stack(model, m, contents) {
    const {index} = model, d = x.view.resource, most = capacityOf(index, m, d), {times} = index;
    const width = Math.max(200, stage.clientWidth), height = 210, top = 8, floor = height - 30;
    const context = sharp(canvas, width, height), ceiling = 1.05 * Math.max(most, model.peak[d][m]);
    const ratio = window.devicePixelRatio || 1;
    const at = t => Math.round((GUTTER + (width - GUTTER - MARGIN) * t / times) * ratio) / ratio, y = value => floor - (floor - top) * value / ceiling;
    canvas.setAttribute("aria-label", `${index.resources[d]} on machine ${machineName(index, m)} over time, stacked by application`);
    context.fillStyle = colour("quiet");
    context.textBaseline = "middle";
    const step = niceStep(ceiling, 5);
    for (let value = 0; value <= ceiling; value += step) {
      context.fillStyle = colour("line");
      context.fillRect(GUTTER, Math.round(y(value)), width - GUTTER - MARGIN, 1);
      context.fillStyle = colour("quiet");
      context.textAlign = "right";
      context.fillText(compact(value), GUTTER - 8, y(value));
    }
    context.textAlign = "center";
    for (let t = 0, every = roundStep(times, (width - GUTTER) / 60); t <= times; t += every) if (t) context.fillText(number(t), at(t - 0.5), floor + 12);
    const base = new Float64Array(times);
    boxes = [];
    contents.forEach(({i, n}, k) => {
      context.fillStyle = paint(k, i);
      const tops = new Float64Array(times);
      for (let t = 0; t < times; t++) {
        const value = n * demandAt(index, i, d, t), low = y(base[t]);
        base[t] += value;
        tops[t] = base[t];
        context.fillRect(at(t), y(base[t]), at(t + 1) - at(t), low - y(base[t]));
        if (low - y(base[t]) > 3) context.clearRect(at(t), y(base[t]) - 0.3, at(t + 1) - at(t), 0.8);
      }
      boxes.push({i, n, tops});
    });
    context.strokeStyle = colour("limit");
    context.lineWidth = 1.5;
    context.setLineDash([6, 4]);
    context.beginPath();
    context.moveTo(GUTTER, y(most));
    context.lineTo(width - MARGIN, y(most));
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colour("limit");
    context.textAlign = "right";
    context.fillText("capacity", width - MARGIN - 4, y(most) + 9);
    context.fillStyle = colour("now");
    context.fillRect(at(x.view.time + 0.5) - 1, top, 2, floor - top);
    context.fillStyle = colour("quiet");
    context.textAlign = "left";
    context.fillText("time", GUTTER, floor + 23);
    stage.read = event => {
      const box = canvas.getBoundingClientRect(), px = event.clientX - box.left;
      const t = Math.floor((px - GUTTER) / (width - GUTTER - MARGIN) * times), value = (floor - (event.clientY - box.top)) / (floor - top) * ceiling;
      if (t < 0 || t >= times) return null;
      return {t, hit: value < 0 ? null : boxes.find(({tops}) => value < tops[t])};
    };
  }

  stage.addEventListener("click", event => {
    const found = stage.read && stage.read(event);
    if (found) x.choose(found.hit ? {time: found.t, application: found.hit.i} : {time: found.t});
  });
  stage.addEventListener("pointermove", event => {
    const found = stage.read && stage.read(event), {index} = x, d = x.view.resource;
    x.tip.show(event, found && found.hit ? [nameOf(index, found.hit.i, 60), `${plural(found.hit.n, "replica")}: ${amount(found.hit.n * demandAt(index, found.hit.i, d, found.t))} ${short(index.resources[d], 20)} at ${timeWords(found.t)}`] : null);
  });
  stage.addEventListener("pointerleave", () => x.tip.hide());

  function table(model, m, contents) {
    const {index} = model, several = index.times > 1, when = several ? x.view.time : 0;
    byId("contents-box").hidden = !contents.length;
    const head = ["Application", ...(index.single ? [] : ["Replicas"]), ...index.resources.map(name => short(name, 20)), ...(index.running ? ["Before"] : [])];
    fill(byId("contents"), make("caption", {class: "hide"}, `Applications on machine ${machineName(index, m)}`),
      make("thead", null, make("tr", null, ...head.map((text, k) => make("th", {scope: "col", class: k && k < head.length - Boolean(index.running) ? "number" : null}, text)))),
      make("tbody", null, ...contents.slice(0, 300).map(({i, n}, k) => {
        const key = make("span", {class: "swatch", "aria-hidden": "true"});
        key.style.background = COLOURS[k % COLOURS.length];
        return make("tr", {"aria-current": i === x.view.application ? "true" : null}, make("td", null, key, link(nameOf(index, i), () => x.choose({application: i}))),
          index.single ? null : make("td", {class: "number"}, number(n)), ...index.resources.map((_, d) => make("td", {class: "number"}, amount(n * demandAt(index, i, d, when)))),
          index.running ? make("td", null, before(model, i, m)) : null);
      })));
  }

  function before(model, i, m) {
    const {index} = model;
    const came = (model.moves.get(i) || []).filter(move => move.end === m);
    return came.length ? listed(came.slice(0, 3).map(({start, replicas}) => `${index.single ? "" : `${number(replicas)} `}${start < 0 ? "new" : `on machine ${machineName(model.index, start)}`}`)) : "here";
  }

  function limits(model, m) {
    const {index} = model, found = reachedOn(model, m), some = found.filter(({limit}) => limit), none = found.filter(({limit}) => !limit);
    const items = list => list.slice(0, 100).map(one => make("li", null, ...limitParts(x, one)));
    const more = (list, most) => (list.length > most ? `The first ${number(most)} of ${number(list.length)}:` : "");
    fill(byId("machine-limits"),
      some.length ? make("h3", null, `${plural(some.length, "affinity limit")} reached`) : "",
      some.length ? make("p", {class: "quiet"}, more(some, 100)) : "", some.length ? make("ul", null, ...items(some)) : "",
      none.length ? make("details", null, make("summary", null, `${plural(new Set(none.map(one => one.j)).size, "application is", "applications are")} excluded here`), more(none, 100), make("ul", null, ...items(none))) : "",
      !found.length && model.byMachine.rows(m).length && index.limits.i.length ? make("p", {class: "quiet"}, "No affinity limit is reached here.") : "");
  }

  return {update};
}

function niceStep(span, most) {
  const raw = span / most, power = 10 ** Math.floor(Math.log10(raw || 1));
  return power * [1, 2, 5, 10].find(factor => factor * power >= raw - 1e-12);
}
