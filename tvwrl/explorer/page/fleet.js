// Machines as columns. With one time, a lane of bars for each resource; with several, bars at the peak and below them
// a heat map with time downwards. The picture is drawn once; what is chosen lies on a second canvas above it.

const HEAD = 16, TITLES = 18, FAULTS = 18;

function makeFleet(figure, x, side) {
  const canvas = make("canvas", {role: "img", tabindex: "0"}), above = make("canvas", {class: "above", "aria-hidden": "true"});
  const title = make("h3", null), stage = make("div", {class: "stage"}, canvas, above);
  fill(figure, make("div", {class: "heading"}, title), stage);
  let model = null, size = null, line = [], groups = [], place = null;

  const columnX = p => GUTTER + p * size.column;

  // Where lanes of bars and the grid of times lie.
  function layout(width) {
    const {index, faults} = model, times = index.times, several = times > 1;
    let top = HEAD + (groups.length ? TITLES : 0) + (faults.size ? FAULTS : 0);
    const lanes = (several ? [x.view.shown] : index.resources.map((_, d) => d)).map(d => {
      const height = several ? 54 : x.b ? 56 : Math.max(46, 150 - 22 * index.resources.length);
      const lane = {d, top, height};
      top += height + 10;
      return lane;
    });
    const grid = several ? {top: top + 2, height: Math.min(x.b ? 190 : 300, Math.max(96, times * 3))} : null;
    const bottom = grid ? grid.top + grid.height : top - 10;
    return {width, lanes, grid, bottom, height: bottom + 34, column: (width - GUTTER - MARGIN) / Math.max(1, line.length)};
  }

  function draw() {
    model = x[side];
    if (!model) return;
    ({machines: line, groups} = arranged(model, x.view.order, x.grouped(), x.view.shown));
    place = new Int32Array(model.machines);
    line.forEach((m, p) => { place[m] = p; });
    size = layout(Math.max(200, stage.clientWidth));
    fill(title, x.b ? make("span", {class: `side ${side}`}, side.toUpperCase()) : "", x.b ? " " : "", titled(model.planner));
    title.parentNode.hidden = !x.b;
    const context = sharp(canvas, size.width, size.height);
    canvas.setAttribute("aria-label", `How full ${plural(model.machines, "machine")} are in the plan of ${titled(model.planner)}, each a column`);
    if (model.machines) {
      for (const lane of size.lanes) drawLane(context, lane);
      if (size.grid) drawGrid(context);
      drawGroups(context);
      drawFaults(context);
    }
    drawAxis(context);
    overlay();
  }

  // As many columns as there are pixels: [left, right, the machines with replicas that share it].
  function columns() {
    const ratio = window.devicePixelRatio || 1, count = Math.min(line.length, Math.floor(size.column * line.length * ratio));
    const snap = p => Math.round(columnX(p) * ratio) / ratio;
    return Array.from({length: count}, (_, c) => {
      const from = Math.floor(c * line.length / count), to = Math.floor((c + 1) * line.length / count);
      return [snap(from), snap(to), line.slice(from, to).filter(m => model.replicas[m])];
    });
  }

  const mean = (machines, d, t) => machines.reduce((sum, m) => sum + shareAt(model, m, d, t), 0) / machines.length;

  function fullest(from, to, d, t) {
    let found = line[from];
    for (let p = from + 1; p < to; p++) {
      const m = line[p];
      if (!model.replicas[found] || shareAt(model, m, d, t) > shareAt(model, found, d, t)) found = m;
    }
    return found;
  }

  function drawLane(context, {d, top, height}) {
    const colours = ramp(), gap = size.column >= 5 ? 1 : 0, marked = new Path2D();
    for (const [left, right, machines] of columns()) {
      if (!machines.length) continue;
      const share = mean(machines, d, -1), tall = height * Math.min(1, share), over = machines.some(m => isOver(model, m, d, -1));
      context.fillStyle = colour("empty");
      context.fillRect(left, top, right - left - gap, height);
      context.fillStyle = css(colours[Math.min(255, Math.floor(share * 256))]);
      context.fillRect(left, top + height - tall, Math.max(0.5, right - left - gap), tall);
      if (over) marked.rect(left, top, Math.max(2, right - left - gap), height);
    }
    mark(context, marked);
    context.strokeStyle = colour("limit");
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(GUTTER, top - 0.5);
    context.lineTo(size.width - MARGIN, top - 0.5);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colour("quiet");
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(size.grid ? "peak" : short(laneName(d), 9), GUTTER - 8, top + height / 2);
    context.fillText("100 %", GUTTER - 8, top + 3);
    context.fillRect(GUTTER, top + height, size.width - MARGIN - GUTTER, 1);
  }

  const laneName = d => (d === "fullest" ? "fullest" : model.index.resources[d]);

  function drawGrid(context) {
    const {times} = model.index, {grid} = size, {shown} = x.view, ratio = window.devicePixelRatio || 1, colours = ramp();
    const rows = Math.min(times, Math.floor(grid.height * ratio)), shownColumns = columns();
    const image = new ImageData(shownColumns.length, rows), pixels = new Uint32Array(image.data.buffer), marked = new Path2D();
    const tall = grid.height / rows;
    shownColumns.forEach(([left, right, machines], c) => {
      if (!machines.length) return;
      for (let r = 0; r < rows; r++) {
        let most = 0, over = false;
        for (let t = Math.floor(r * times / rows); t < Math.floor((r + 1) * times / rows); t++) {
          most = Math.max(most, mean(machines, shown, t));
          over = over || machines.some(m => isOver(model, m, shown, t));
        }
        pixels[r * shownColumns.length + c] = colours[Math.min(255, Math.floor(most * 256))];
        if (over) marked.rect(left, grid.top + r * tall, Math.max(2, right - left), Math.max(3, tall));
      }
    });
    const offscreen = make("canvas", {width: shownColumns.length, height: rows});
    offscreen.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(offscreen, GUTTER, grid.top, size.column * line.length, grid.height);
    mark(context, marked);
    context.fillStyle = colour("quiet");
    context.textAlign = "right";
    for (let t = 0, every = roundStep(times, grid.height / 26); t < times; t += every) {
      context.fillText(t ? number(t) : "time 1", GUTTER - 8, grid.top + (Math.max(0, t - 1) + 0.5) * grid.height / times);
    }
  }

  function mark(context, path) {
    for (const style of [colour("alarm"), hatch(context)]) {
      context.fillStyle = style;
      context.fill(path);
    }
  }

  // Lines between kinds of machines; what they are above, where there is room for it.
  function drawGroups(context) {
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const {from, to, kind} of groups) {
      const left = columnX(from), wide = columnX(to) - left, words = kindWords(model.index, kind);
      context.fillStyle = colour("quiet");
      if (from) context.fillRect(left - 0.5, HEAD, 1, size.bottom - HEAD);
      const fit = [`${number(to - from)} with ${words}`, words].find(text => context.measureText(text).width < wide - 10);
      if (fit) context.fillText(fit, left + (from ? 5 : 0), HEAD + TITLES / 2 - 3);
    }
  }

  function drawFaults(context) {
    if (!model.faults.size) return;
    const y = HEAD + (groups.length ? TITLES : 0) + FAULTS / 2;
    context.fillStyle = colour("quiet");
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText("violation", GUTTER - 8, y - 1);
    context.fillStyle = colour("alarm");
    for (const m of model.faults.keys()) if (m >= 0) triangle(context, columnX(place[m] + 0.5), y + 3, -7);
  }

  function triangle(context, at, y, tall) {
    context.beginPath();
    context.moveTo(at, y + tall);
    context.lineTo(at - 4, y);
    context.lineTo(at + 4, y);
    context.fill();
  }

  function drawAxis(context) {
    const byNumber = x.view.order === "number" && groups.length < 2 && !model.index.machines.name;
    context.fillStyle = colour("quiet");
    context.textBaseline = "middle";
    context.textAlign = "center";
    if (byNumber) {
      for (let k = 0, every = roundStep(line.length, (size.width - GUTTER) / 60); k <= line.length; k += every) {
        const p = Math.max(0, k - 1);
        context.fillRect(columnX(p + 0.5), size.bottom, 1, 4);
        context.fillText(number(p + 1), columnX(p + 0.5), size.bottom + 12);
      }
    }
    const sorted = `${groups.length > 1 ? "kind by kind, " : ""}${x.view.order === "fill" ? "the fullest first" : model.index.machines.name ? "as listed" : "by number"}`;
    context.textAlign = "left";
    context.fillText(worded(line.length ? `machines, ${sorted}` : "There is no machine."), GUTTER, size.bottom + (byNumber ? 27 : 14));
  }

  function overlay() {
    if (!size || !model) return;
    const context = sharp(above, size.width, size.height), {machine, application, time} = x.view;
    if (application >= 0) {
      context.fillStyle = colour("now");
      for (const r of model.byApplication.rows(application)) triangle(context, columnX(place[model.tree.machine[r]] + 0.5), 4, 8);
    }
    if (size.grid) {
      const y = size.grid.top + (time + 0.5) * size.grid.height / model.index.times;
      context.fillStyle = colour("now");
      context.fillRect(GUTTER - 3, y - 1, size.column * line.length + 6, 2);
    }
    // In another plan the same number is the same machine only where machines are given.
    if (machine < 0 || machine >= model.machines || !(model.index.machines.fixed || x.shownSide() === side)) return;
    context.strokeStyle = context.fillStyle = colour("ink");
    context.lineWidth = 1.5;
    const left = columnX(place[machine]), wide = Math.max(3, size.column);
    context.strokeRect(left + size.column / 2 - wide / 2 - 0.5, HEAD - 2, wide + 1, size.bottom - HEAD + 3);
    triangle(context, left + size.column / 2, size.bottom + 8, -7);
  }

  // The machine that is drawn below the pointer, and the time, or -1 on a lane.
  function under(event) {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top, {grid} = size;
    const from = Math.floor((px - GUTTER) / size.column);
    if (from < 0 || from >= line.length || py > size.bottom + 10) return null;
    const inGrid = grid && py >= grid.top && py < grid.top + grid.height;
    const t = inGrid ? Math.floor((py - grid.top) / grid.height * model.index.times) : -1;
    const lane = size.lanes.find(one => py < one.top + one.height) || size.lanes[0];
    return {machine: fullest(from, Math.min(line.length, from + Math.max(1, Math.floor(1 / size.column))), grid ? x.view.shown : lane.d, -1), t};
  }

  stage.addEventListener("pointerdown", event => {
    const hit = model && under(event);
    if (hit) x.set(hit.t >= 0 ? {machine: hit.machine, side, time: hit.t} : {machine: hit.machine, side});
  });
  stage.addEventListener("pointermove", event => {
    const hit = model && under(event);
    x.tip.show(event, hit ? [...machineLines(model, hit.machine, hit.t), ...(x.kinds > 1 ? [`Kind: ${kindWords(model.index, kindOf(model.index, hit.machine))}`] : [])] : null);
  });
  stage.addEventListener("pointerleave", () => x.tip.hide());

  const shares = () => Boolean(size) && size.column * (window.devicePixelRatio || 1) < 1;

  // The machine so many places further on, as they are drawn.
  function beside(machine, way) {
    if (!line.length) return -1;
    const p = machine < 0 || machine >= model.machines ? (way > 0 ? 0 : line.length - 1) : place[machine] + way;
    return line[Math.max(0, Math.min(line.length - 1, p))];
  }

  return {draw, overlay, beside, shares};
}

const css = packed => `rgb(${packed & 255} ${packed >> 8 & 255} ${packed >> 16 & 255})`;
