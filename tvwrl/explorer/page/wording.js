// Other words for what the page shows, where its index has some: `words`, pairs of a pattern and what stands for it.

let vocabulary = [];

const worded = text => vocabulary.reduce((said, [pattern, other]) => said.replace(pattern, other), text);

function speak(index) {
  vocabulary = (index.words || []).map(([pattern, other]) => [new RegExp(pattern, "g"), other]);
  if (!vocabulary.length) return;
  const page = byId("page");
  if (index.about.length) byId("about").replaceChildren(byId("about").querySelector("summary"), ...index.about.map(text => make("p", null, text)));
  reword(page);
  new MutationObserver(changes => {
    for (const {type, target, addedNodes} of changes) {
      if (type === "childList") addedNodes.forEach(reword);
      else reword(target);
    }
  }).observe(page, {subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: SPOKEN});
}

const SPOKEN = ["aria-label", "title", "placeholder"]; // attributes that people read or hear

function reword(node) {
  if (node.nodeType === Node.TEXT_NODE) {
    const said = worded(node.data);
    if (said !== node.data) node.data = said;
  } else if (node.nodeType === Node.ELEMENT_NODE) {
    for (const name of SPOKEN) {
      const text = node.getAttribute(name), said = text && worded(text);
      if (said !== text) node.setAttribute(name, said);
    }
    node.childNodes.forEach(reword);
  }
}
