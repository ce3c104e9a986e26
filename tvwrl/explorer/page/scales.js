// Shared by all drawings: one gutter left and right so that charts below each other lie on one clock, canvases as sharp
// as the screen, ticks at round numbers.

const GUTTER = 68, MARGIN = 12;

// A canvas of that size in CSS pixels, cleared; returns its context.
function sharp(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const w = Math.round(width * ratio), h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = `11px ${colour("font")}`;
  return context;
}

// Round steps (1, 2, 5 x 10^n) so that at most `most` of them fit.
function roundStep(span, most) {
  const raw = span / Math.max(1, most), power = 10 ** Math.floor(Math.log10(raw || 1));
  return Math.max(1, power * [1, 2, 5, 10].find(factor => factor * power >= raw - 1e-12));
}

// Slots at which hours or days are round, and what they are called.
function timeTicks(slots, slotSeconds, most) {
  const sizes = [60, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 2592000, 8640000];
  const span = slots * slotSeconds, size = sizes.find(s => s >= slotSeconds && span / s <= most) || span || 1;
  const ticks = [];
  for (let time = 0; time <= span && ticks.length < 100; time += size) ticks.push([time / slotSeconds, duration(time)]);
  if (ticks.length) ticks[0][1] = "0";
  return ticks;
}

// What all uPlot charts here share: axes in the page's colours, the clock's gutter, no drag to zoom.
function chartOptions(width, height, slots, y, unit) {
  const axis = {
    stroke: colour("quiet"), font: `11px ${colour("font")}`,
    grid: {stroke: colour("line"), width: 1}, ticks: {stroke: colour("line"), width: 1, size: 4},
  };
  return {
    width, height, padding: [8, MARGIN, 0, 0], legend: {show: false}, pxAlign: 1,
    cursor: {drag: {x: false, y: false}, points: {show: false}},
    scales: {x: {time: false, range: () => slots}, y: {range: y}},
    axes: [{...axis, size: 24, gap: 2}, {...axis, size: GUTTER, gap: 4, values: (plot, at) => at.map(v => compact(v))}],
    hooks: {}, unit,
  };
}

function compact(value) {
  const size = Math.abs(value);
  for (const [least, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= least) return number(value / least, size % least === 0 ? 0 : size / least < 10 ? 2 : 1) + name;
  }
  return number(value, value === Math.round(value) ? 0 : size < 1 ? 2 : 1);
}

// A pattern that tells overshoot apart without colour.
function hatch(context) {
  const tile = make("canvas", {width: 6, height: 6}), brush = tile.getContext("2d");
  brush.strokeStyle = colour("hatch");
  brush.lineWidth = 1.4;
  brush.beginPath();
  for (const shift of [-6, 0, 6]) {
    brush.moveTo(shift, 6);
    brush.lineTo(shift + 6, 0);
  }
  brush.stroke();
  return context.createPattern(tile, "repeat");
}
