// Numbers and times as words.

const formats = new Map();

function number(value, digits = 0) {
  if (!formats.has(digits)) {
    formats.set(digits, new Intl.NumberFormat("en", {minimumFractionDigits: digits, maximumFractionDigits: digits}));
  }
  if (Number.isNaN(value)) return "–";
  const text = formats.get(digits).format(value);
  return /^-[0.,]*$/.test(text) ? text.slice(1) : text.replace("-", "−");
}

// Digits after the point that suit a set of numbers: none where the largest has four before it.
const digitsOf = largest => (largest >= 1000 || !Number.isFinite(largest) ? 0 : largest >= 10 ? 1 : largest >= 1 ? 2 : 3);
const amount = value => number(value, value === Math.round(value) ? 0 : digitsOf(Math.abs(value)));
const signed = (value, digits) => (value > 0 ? "+" : "") + number(value, digits);
const percent = value => (Number.isFinite(value) ? number(100 * value, Math.abs(value) < 0.0995 ? 1 : 0) + " %" : "–");
const plural = (count, one, more) => `${number(count)} ${count === 1 ? one : more || one + "s"}`;
const short = (text, most = 40) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const capital = text => text.charAt(0).toUpperCase() + text.slice(1);

// "3 d 4 h", at most two units.
function duration(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  let rest = Math.round(seconds);
  const parts = [];
  for (const [name, size] of units) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count) parts.push(`${count} ${name}`);
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}

const machineWords = (index, m) => (m < 0 ? index.waiting : `machine ${m}`);

// "30,000 less for overshoot and 1,204 more for waiting"; what adds less than a thousandth of the largest is left out.
function byTerm(parts, terms) {
  const least = Math.max(...parts.map(Math.abs)) * 1e-3;
  const order = parts.map((value, i) => i).sort((i, j) => Math.abs(parts[j]) - Math.abs(parts[i]));
  const digits = parts.every(Number.isInteger) ? 0 : digitsOf(Math.max(1000 * least, Math.abs(parts.reduce((sum, value) => sum + value, 0))));
  const said = order.filter(i => Math.abs(parts[i]) > least)
    .map(i => `${number(Math.abs(parts[i]), digits)} ${parts[i] < 0 ? "less" : "more"} for ${terms[i]}`);
  return listed(said);
}

const listed = words => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`);
