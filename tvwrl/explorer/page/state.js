// What is shown, in one place. Fields are named in the URL's fragment, so that a link restores the view.

// fields: name -> {read(text) -> value or undefined, write(value) -> text or null}
function makeStore(fields, first) {
  const listeners = [];
  let view = {...first}, changed = new Set(), waiting = false, later = 0;

  function set(changes) {
    for (const [name, value] of Object.entries(changes)) {
      if (Object.is(view[name], value)) continue;
      view[name] = value;
      changed.add(name);
    }
    if (changed.size && !waiting) {
      waiting = true;
      requestAnimationFrame(tell);
    }
  }

  // Listeners hear of all changes since the last frame at once; none of them may change the view.
  function tell() {
    const names = changed;
    changed = new Set();
    waiting = false;
    for (const listener of listeners) listener(view, names);
    clearTimeout(later);
    later = setTimeout(() => history.replaceState(null, "", fragment()), 250);
  }

  function fragment() {
    const parts = [];
    for (const [name, field] of Object.entries(fields)) {
      const text = field.write(view[name]);
      if (text !== null) parts.push(`${name}=${encodeURIComponent(text)}`);
    }
    return "#" + parts.join("&");
  }

  // The fields of a fragment, and the parts that could not be understood.
  function read(text) {
    const found = {}, bad = [];
    for (const part of text.replace(/^#/, "").split("&").filter(Boolean)) {
      let value;
      const cut = part.indexOf("="), name = part.slice(0, cut);
      try {
        value = Object.hasOwn(fields, name) ? fields[name].read(decodeURIComponent(part.slice(cut + 1))) : undefined;
      } catch {
        value = undefined;
      }
      if (value === undefined) bad.push(part);
      else found[name] = value;
    }
    return {found, bad};
  }

  return {set, read, fragment, listen: listener => listeners.push(listener), get view() { return view; }};
}

// A whole number from `least` to below `most()`; nothing else is understood.
const whole = (most, least = 0) => ({
  read: text => (/^-?\d{1,9}$/.test(text) && Number(text) >= least && Number(text) < most() ? Number(text) : undefined),
  write: value => (value === null || value < least ? null : String(value)),
});

// One of some names, kept as its number.
const named = names => ({
  read: text => (names().includes(text) ? names().indexOf(text) : undefined),
  write: value => (value === null || value < 0 ? null : names()[value]),
});

// Says which parts of a link could not be followed.
function note(bad) {
  byId("note").hidden = !bad.length;
  byId("note").textContent = bad.length ? `Ignored, because it does not fit this file: ${short(bad.join(", "), 100)}` : "";
}
