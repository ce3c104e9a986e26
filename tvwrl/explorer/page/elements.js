// Elements of the page. Text goes in as text, never as markup: nothing of the data is ever interpreted.

const byId = id => document.getElementById(id);

// make("td", {class: "number", title: "..."}, "text", element, ...)
function make(tag, attributes, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "click") element.addEventListener("click", value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...content.filter(part => part !== null && part !== undefined && part !== ""));
  return element;
}

const link = (text, click, attributes) =>
  make("button", {type: "button", class: "link", click, ...attributes}, text);

function fill(element, ...content) {
  element.replaceChildren(...content.filter(part => part !== null && part !== undefined && part !== ""));
}

// A select with the given [value, text] pairs; `chosen` is called with the value.
function select(element, pairs, chosen) {
  fill(element, ...pairs.map(([value, text]) => make("option", {value}, text)));
  element.addEventListener("change", () => chosen(element.value));
}

// A row of buttons of which one is pressed.
function choice(element, pairs, chosen) {
  fill(element, ...pairs.map(([value, text]) =>
    make("button", {type: "button", "data-value": value, click: () => chosen(value)}, text)));
}

function press(element, value) {
  for (const button of element.children) button.setAttribute("aria-pressed", String(button.dataset.value === String(value)));
}

function trouble(text) {
  byId("trouble").textContent = text;
  byId("trouble").hidden = false;
  byId("loading").hidden = true;
}

// The small box beside the pointer.
function makeTip(element) {
  return {
    hide: () => { element.hidden = true; },
    show(event, lines) {
      element.hidden = !lines;
      if (!lines) return;
      fill(element, ...lines.map((text, i) => make(i ? "div" : "strong", null, text)));
      const {width, height} = element.getBoundingClientRect();
      element.style.left = `${Math.max(4, Math.min(innerWidth - width - 8, event.clientX + 14))}px`;
      element.style.top = `${Math.max(4, event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18)}px`;
    },
  };
}
