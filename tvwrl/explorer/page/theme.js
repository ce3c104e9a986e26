// Light and dark, and colours for canvases; the colours themselves are in the style sheet.

const THEMES = [["system", "System"], ["light", "Light"], ["dark", "Dark"]];
const themeListeners = [];
let palette = {};

function isDark() {
  const asked = document.documentElement.dataset.theme;
  return asked ? asked === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  themeChanged();
}

function themeChanged() {
  palette = {};
  for (const tell of themeListeners) tell();
}

function startTheme(element) {
  select(element, THEMES, setTheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);
}

// The value of a CSS variable, such as colour("ink").
function colour(name) {
  if (!(name in palette)) palette[name] = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  return palette[name];
}

// From nothing to full: pale to dark on light paper, dark to pale on dark, blue-green so that vermilion stands apart.
const RAMPS = {
  light: ["#e3f1f0", "#b5dcdc", "#7cc0c9", "#4a9db8", "#31769f", "#28507f", "#1e2e56"],
  dark: ["#1c2b3d", "#213f5f", "#255a80", "#2c7a99", "#48a0a8", "#85c8b6", "#d4f0cf"],
};

// 256 colours as 0xAABBGGRR, for ImageData seen as Uint32Array.
function ramp() {
  const stops = RAMPS[isDark() ? "dark" : "light"].map(rgb), table = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    const place = i / 255 * (stops.length - 1), k = Math.min(Math.floor(place), stops.length - 2), f = place - k;
    table[i] = packedColour(stops[k].map((value, c) => Math.round(value + f * (stops[k + 1][c] - value))));
  }
  return table;
}

const rgb = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
const packedColour = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
