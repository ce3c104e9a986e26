// Keys, and the dialog that lists them. lines: [keys separated by spaces, what they do in words, [an action for each]].
// They act while usable().

function startKeys(dialog, button, lines, usable) {
  const actions = new Map();
  for (const [keys, , does] of lines) keys.split(" ").forEach((key, i) => actions.set(key, does[i]));
  const names = {ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Space: "Space"};
  const cap = key => make("kbd", null, key.split("+").map(part => names[part] || part).join(" + "));

  fill(dialog, make("h2", null, "Keys"), make("dl", null, ...lines.flatMap(([keys, words]) => [
    make("dt", null, ...keys.split(" ").flatMap((key, i) => (i ? [" ", cap(key)] : [cap(key)]))),
    make("dd", null, words),
  ])), make("form", {method: "dialog"}, make("button", null, "Close")));
  const help = () => (dialog.open ? dialog.close() : dialog.showModal());
  actions.set("?", help);
  button.addEventListener("click", help);

  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (dialog.open && event.key !== "?") return;
    const kind = event.target.tagName, type = event.target.type;
    // Sliders and boxes that scroll need these themselves.
    const scrolls = event.target.getAttribute && event.target.getAttribute("role") === "region";
    if (event.key.startsWith("Arrow") && !event.shiftKey && (scrolls || (type === "range" && /Up|Down/.test(event.key)))) return;
    const writes = kind === "SELECT" || kind === "TEXTAREA" || (kind === "INPUT" && type !== "checkbox" && type !== "range");
    if (writes) return;
    if (event.key === " " && (kind === "BUTTON" || kind === "SUMMARY" || type === "checkbox")) return;
    const name = event.key === " " ? "Space" : event.key;
    const action = actions.get((event.shiftKey && name.startsWith("Arrow") ? "Shift+" : "") + name);
    if (!action || !(action === help || usable())) return;
    event.preventDefault();
    action();
  });
}
