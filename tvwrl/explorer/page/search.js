// A search box with a list below: type, arrow down, Enter. find(text) -> [{text, choose}].

function startSearch(input, list, find) {
  let hits = [], at = -1;

  function show() {
    hits = input.value.trim() ? find(input.value.trim().toLowerCase()) : [];
    at = hits.length ? 0 : -1;
    fill(list, ...hits.map((hit, i) => {
      const item = make("li", {role: "option", id: `${list.id}-${i}`}, hit.text);
      item.addEventListener("pointerdown", event => {
        event.preventDefault();
        take(i);
      });
      return item;
    }));
    if (input.value.trim() && !hits.length) fill(list, make("li", {role: "option", "aria-disabled": "true"}, "Nothing found"));
    list.hidden = !input.value.trim();
    mark();
  }

  function mark() {
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
    input.setAttribute("aria-expanded", String(!list.hidden));
    if (at < 0) input.removeAttribute("aria-activedescendant");
    else {
      input.setAttribute("aria-activedescendant", `${list.id}-${at}`);
      list.children[at].scrollIntoView({block: "nearest"});
    }
  }

  function close() {
    list.hidden = true;
    at = -1;
    mark();
  }

  function take(i) {
    if (!hits[i]) return;
    const hit = hits[i];
    input.value = "";
    close();
    input.blur();
    hit.choose();
  }

  input.addEventListener("input", show);
  input.addEventListener("focus", show);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", event => {
    if (event.key === "Enter") take(Math.max(0, at));
    else if (event.key === "Escape") {
      input.value = "";
      close();
      input.blur();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (hits.length) at = (at + (event.key === "ArrowDown" ? 1 : hits.length - 1)) % hits.length;
      mark();
    }
  });
}
