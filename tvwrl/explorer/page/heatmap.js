// Machines x time as colours, with lanes for the queue, overshoot and decisions above. The picture is drawn once; the
// slot, the machine and the decision that are chosen lie on a second canvas above it.

const LANES = {waiting: [4, 22], overshoot: [32, 16], decisions: [54, 22]}, GRID_TOP = 82, AXIS = 34;

function makeHeatmap(figure, x, side) {
  const canvas = make("canvas", {role: "img", tabindex: "0"}), above = make("canvas", {class: "above", "aria-hidden": "true"});
  const title = make("h3", null), stage = make("div", {class: "stage"}, canvas, above);
  fill(figure, make("div", {class: "heading"}, title), stage);
  let model = null, size = null;

  const slotX = t => GUTTER + t * size.cell;
  const machineY = m => GRID_TOP + m * size.row;

  function draw() {
    model = x[side];
    if (!model) return;
    const width = Math.max(200, stage.clientWidth), {machines, slots} = model;
    const rows = x.b ? [12, 84, 200] : [22, 110, 330];
    const grid = Math.min(rows[2], Math.max(rows[1], machines * rows[0]));
    size = {width, grid, height: GRID_TOP + grid + AXIS, cell: (width - GUTTER - MARGIN) / Math.max(1, slots), row: grid / machines};
    fill(title, make("span", {class: `side ${side}`}, side.toUpperCase()), " ", short(model.scheduler.title || model.scheduler.name));
    const context = sharp(canvas, width, size.height);
    canvas.setAttribute("aria-label", `Used share of ${machines} machines over ${slots} slots under ${model.scheduler.name}`);
    if (slots) drawCells(context);
    drawLanes(context);
    drawAxes(context);
    overlay();
  }

  // One pixel per cell, or per group of cells where there are more than pixels: then the fullest of the group is drawn.
  function drawCells(context) {
    const ratio = window.devicePixelRatio || 1, {shown} = x.view;
    const rows = Math.min(model.machines, Math.floor(size.grid * ratio));
    const columns = Math.min(model.slots, Math.floor(size.cell * model.slots * ratio));
    const image = new ImageData(columns, rows), pixels = new Uint32Array(image.data.buffer), colours = ramp();
    const marked = new Path2D();
    const groups = (count, size) => Array.from({length: count + 1}, (_, i) => Math.floor(i * size / count));
    const machineFrom = groups(rows, model.machines), slotFrom = groups(columns, model.slots);
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        let most = 0, over = false;
        for (let m = machineFrom[r]; m < machineFrom[r + 1]; m++) {
          for (let t = slotFrom[c]; t < slotFrom[c + 1]; t++) {
            most = Math.max(most, shareAt(model, m, t, shown));
            over = over || isOver(model, m, t, shown);
          }
        }
        if (over) {
          marked.rect(slotX(slotFrom[c]), machineY(machineFrom[r]), Math.max(2, size.cell * (slotFrom[c + 1] - slotFrom[c])),
            Math.max(3, size.row * (machineFrom[r + 1] - machineFrom[r])));
        }
        if (most > 0) pixels[r * columns + c] = colours[Math.min(255, Math.floor(most * 256))];
      }
    }
    const offscreen = make("canvas", {width: columns, height: rows});
    offscreen.getContext("2d").putImageData(image, 0, 0);
    context.fillStyle = colour("empty");
    context.fillRect(GUTTER, GRID_TOP, size.cell * model.slots, size.grid);
    context.imageSmoothingEnabled = false;
    context.drawImage(offscreen, GUTTER, GRID_TOP, size.cell * model.slots, size.grid);
    context.fillStyle = colour("alarm");
    context.fill(marked);
    if (size.row < 4.5) return;
    context.fillStyle = hatch(context);
    context.fill(marked);
    if (size.row < 6) return;
    context.fillStyle = colour("paper");
    for (let m = 1; m < model.machines; m++) context.fillRect(GUTTER, Math.round(machineY(m)) - 0.5, size.cell * model.slots, 1);
  }

  // At least 1; a list may be longer than a call has room for arguments.
  const largest = list => list.reduce((most, value) => Math.max(most, value), 1);

  function drawLanes(context) {
    const {slots} = model, most = largest(model.waiting);
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const [name, [top, height]] of Object.entries(LANES)) {
      context.fillStyle = colour("quiet");
      context.fillText(name, GUTTER - 8, top + height / 2);
      context.fillStyle = colour("line");
      context.fillRect(GUTTER, top + height, size.cell * slots, 1);
    }
    const mostOver = largest(model.overCount);
    for (let t = 0; t < slots; t++) {
      bar(context, LANES.waiting, t, model.waiting[t] / most, colour("queue"));
      bar(context, LANES.overshoot, t, model.overCount[t] && Math.max(0.3, model.overCount[t] / mostOver), colour("alarm"));
    }
    context.textAlign = "right";
    context.fillStyle = colour("quiet");
    if (model.waiting.some(count => count > 0)) context.fillText(`up to ${number(most)}`, size.width - MARGIN - 2, LANES.waiting[0] + 3);
    for (const k of worstOfSlots()) mark(context, k, colour("ink"));
  }

  function bar(context, [top, height], t, share, fillStyle) {
    if (!share) return;
    context.fillStyle = fillStyle;
    context.fillRect(slotX(t), top + height * (1 - share), Math.max(1, size.cell + 0.6), height * share);
  }

  // Of each slot with decisions the costliest.
  function worstOfSlots() {
    const worst = new Map(), {slot} = model.episode;
    for (let k = 0; k < slot.length; k++) {
      const now = worst.get(slot[k]);
      if (now === undefined || (model.regret[k] || 0) > (model.regret[now] || 0)) worst.set(slot[k], k);
    }
    return worst.values();
  }

  // A bar as tall as the decision was costly; a dash where nothing was cheaper, or where that is not known.
  function mark(context, k, style, more = 0) {
    const [top, height] = LANES.decisions, t = model.episode.slot[k];
    const share = model.mostRegret > 0 && matters(model, k) ? Math.sqrt(model.regret[k] / model.mostRegret) : 0;
    const wide = Math.min(5, Math.max(1, size.cell - 1)) + more, tall = share ? 3 + (height - 3) * share : 2;
    context.fillStyle = style;
    context.fillRect(slotX(t) + (size.cell - wide) / 2, top + height - tall, wide, tall);
  }

  function drawAxes(context) {
    const bottom = GRID_TOP + size.grid, {machines, slots, index} = model;
    context.fillStyle = colour("quiet");
    context.textAlign = "right";
    const step = roundStep(machines, size.grid / 16);
    for (let m = 0; m < machines; m += step) context.fillText(machines <= 30 ? `m ${m}` : `${m}`, GUTTER - 8, machineY(m + 0.5));
    context.textAlign = "center";
    const wide = (size.width - GUTTER) / 70;
    for (let t = 0, every = roundStep(slots, wide); t <= slots; t += every) {
      context.fillRect(slotX(t), bottom, 1, 4);
      context.fillText(number(t), slotX(t), bottom + 11);
    }
    for (const [t, words] of timeTicks(slots, index.slot_seconds, wide)) context.fillText(words, slotX(t), bottom + 26);
    context.textAlign = "right";
    context.fillText("slot", GUTTER - 14, bottom + 11);
    context.fillText("time", GUTTER - 14, bottom + 26);
  }

  function overlay() {
    if (!size || !model) return;
    const context = sharp(above, size.width, size.height), {slot, machine, decision} = x.view, bottom = GRID_TOP + size.grid;
    if (machine >= 0 && machine < model.machines) {
      outline(context, machine);
    }
    if (x.difference) {
      context.setLineDash([4, 3]);
      line(context, slotX(x.difference.slot), bottom, colour("part"), 1.5);
      context.setLineDash([]);
    }
    if (model.slots) line(context, slotX(slot + 0.5), bottom, colour("now"), 2);
    if (side === "a" && decision >= 0) mark(context, decision, colour("now"), 3);
  }

  // A frame around the machine's row; arrows at its ends where rows are too thin for one.
  function outline(context, machine) {
    const right = GUTTER + size.cell * model.slots, middle = machineY(machine + 0.5);
    context.strokeStyle = context.fillStyle = colour("ink");
    context.lineWidth = 1.5;
    if (size.row >= 5) {
      context.strokeRect(GUTTER - 1, machineY(machine) - 0.5, right - GUTTER + 2, size.row + 1);
      return;
    }
    for (const [tip, back] of [[GUTTER, GUTTER - 7], [right, right + 7]]) {
      context.beginPath();
      context.moveTo(tip, middle);
      context.lineTo(back, middle - 4);
      context.lineTo(back, middle + 4);
      context.fill();
    }
  }

  function line(context, at, bottom, style, width) {
    context.strokeStyle = style;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(at, 0);
    context.lineTo(at, bottom);
    context.stroke();
  }

  // The slot and machine below the pointer; machine -1 on a lane.
  function under(event) {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const slot = Math.min(model.slots - 1, Math.max(0, Math.floor((px - GUTTER) / size.cell)));
    const m = Math.floor((py - GRID_TOP) / size.row), inside = py >= GRID_TOP && m < model.machines;
    const lane = Object.keys(LANES).find(name => py >= LANES[name][0] - 4 && py <= LANES[name][0] + LANES[name][1] + 4);
    return {slot, machine: inside ? fullest(m, slot) : -1, lane, left: px, top: py};
  }

  // Where several machines share a pixel, the one that is drawn.
  function fullest(m, slot) {
    let found = m;
    for (let other = m; other < Math.min(model.machines, m + Math.floor(1 / size.row)); other++) {
      if (shareAt(model, other, slot, x.view.shown) > shareAt(model, found, slot, x.view.shown)) found = other;
    }
    return found;
  }

  function nearestDecision(slot) {
    let found = -1;
    for (const k of worstOfSlots()) {
      const away = other => Math.abs(model.episode.slot[other] - slot) - 1e-3 * (model.regret[other] || 0) / (model.mostRegret || 1);
      if (found < 0 || away(k) < away(found)) found = k;
    }
    return found;
  }

  stage.addEventListener("pointerdown", event => {
    if (!model || !model.slots) return;
    const {slot, machine, lane} = under(event);
    const k = lane === "decisions" && side === "a" ? nearestDecision(slot) : -1;
    if (k >= 0) x.chooseDecision(k);
    else x.set(machine >= 0 ? {slot, machine} : {slot});
  });
  stage.addEventListener("pointermove", event => {
    if (!model || !model.slots) return;
    const at = under(event);
    if (event.buttons & 1 && at.lane !== "decisions") x.set({slot: at.slot});
    x.tip.show(event, at.lane ? laneWords(model, at) : at.machine >= 0 ? cellWords(model, at) : null);
  });
  stage.addEventListener("pointerleave", () => x.tip.hide());
  return {draw, overlay};
}
