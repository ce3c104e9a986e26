// The chosen decision: in words what was done and what else would have cost, then every alternative in a table.

function makeDecision(section, x) {
  const title = byId("decision-title"), words = byId("decision-words"), around = byId("decision-around"), knew = byId("decision-knew"), table = byId("alternatives");

  function update() {
    const k = x.view.decision, model = x.a;
    section.classList.toggle("none", k < 0);
    if (k < 0) {
      title.textContent = "No decision chosen";
      fill(words, ...(model.episode.slot.length ? nothingChosen() : ["This scheduler made no decision in this episode."]));
      fill(around);
      fill(knew);
      fill(table);
      return;
    }
    title.textContent = `Slot ${number(model.episode.slot[k])}: ${happened(model, k)}`;
    fill(words, ...verdictOf(model, k));
    fill(around, ...surroundings(model, k));
    fill(knew, ...knowledge(model, k));
    drawTable(model, k);
  }

  function nothingChosen() {
    const {workload} = x.view, k = workload < 0 ? -1 : decisionOf(x.a, workload);
    if (workload < 0) return ["Choose one in the list or in the row “decisions” of the picture, or press J and K to step from one to the next."];
    if (k >= 0) return ["Show the one about ", link(short(x.tree.workloads.name[workload]), () => x.chooseDecision(k)), "."];
    return [`${x.a.scheduler.name} made no decision about ${short(x.tree.workloads.name[workload])}.`];
  }

  // What was before, what came of it, and what B did.
  function surroundings(model, k) {
    const parts = [...waitingWords(model.episode.waiting[k]), ...aftermath(model, k)];
    if (x.b) parts.push(...elsewhere(k));
    if (x.view.slot !== model.episode.slot[k]) {
      parts.push(`The clock shows slot ${number(x.view.slot)}. `, link("Back to this decision", () => x.chooseDecision(k)), ".");
    }
    return parts;
  }

  // What the file says it leaves out, without sentences about other schedulers, which begin with their names.
  function reasons(name) {
    const others = x.index.schedulers.map(one => one.name).filter(other => other !== name);
    return x.index.left_out.filter(text => !others.some(other => text.startsWith(`${other} `) || text.startsWith(`${other}:`)));
  }

  // What would have been cheaper, by term.
  function verdictOf(model, k) {
    const name = model.scheduler.name, after = model.scheduler.continued_by || name;
    if (model.best[k] < 0 || Number.isNaN(model.regret[k])) {
      return ["What its alternatives would have cost is not known: they were not simulated. ", reasons(name).join(" ")];
    }
    const then = after === name ? `${name} makes all later decisions in every row, and part of the difference may come from those.`
      : `${after}, not ${name} itself, makes all later decisions.`;
    if (!matters(model, k)) return [make("strong", null, "No alternative would have cost less. "), then];
    const best = model.episode.machines[k * model.episode.machines.shape[1] + model.best[k]];
    const where = best < 0 ? "Waiting one slot" : make("span", null, "On ", link(`machine ${best}`, () => x.set({machine: best})), " it");
    return [where, " would have cost ", make("strong", null, `${amount(model.regret[k])} less`), ": ",
      byTerm(regretParts(model, k), x.index.terms), ". ", then];
  }

  function elsewhere(k) {
    const i = x.a.episode.workload[k], name = x.b.scheduler.name, m = x.b.episode.machine[i];
    if (!differs(x.a, x.b, k)) return [`${name} did the same. `];
    return m < 0 ? [`${name} never placed it. `]
      : [`${name} put it on `, link(`machine ${m}`, () => x.set({machine: m})), ` in slot ${number(x.b.episode.start[i])}. `];
  }

  function knowledge(model, k) {
    const {name, title, knows, group} = model.scheduler;
    const parts = [knows ? `${title || name} knew: ${knows.replace(/\.$/, "")}. ` : "What it knew is not stated. "];
    if (group) parts.push(`Group: ${group}. `);
    return [...parts, scoresOf(model, k)];
  }

  // What it, or the scheduler it goes on with, thought of its choice, and of the cheapest alternative.
  function scoresOf(model, k) {
    const {name, meaning, continued_by: after} = model.scheduler, all = alternativesOf(model, k).filter(one => !Number.isNaN(one.score));
    const own = all.find(one => one.chosen), best = all.find(one => one.cheapest);
    if (!meaning || !own) return "";
    const better = meaning === "expected cost" ? one => one.score < own.score : one => one.score > own.score;
    const allowed = all.filter(one => one.possible || one === own);
    const place = `rank ${allowed.filter(better).length + 1} of ${allowed.length}`, whose = after && after !== name ? `${after}'s` : "Its";
    const other = best && best !== own ? `; for ${machineWords(x.index, best.machine)} it was ${scoreWords(best.score, meaning)}` : "";
    return `${whose} ${meaning} for ${machineWords(x.index, own.machine)} was ${scoreWords(own.score, meaning)}, ${place}${other}.`;
  }

  // Whether the machine that was chosen overshot while the workload ran there.
  function aftermath(model, k) {
    const m = model.episode.chosen[k], i = model.episode.workload[k], name = short(x.tree.workloads.name[i]);
    if (m < 0) return [];
    const over = [];
    for (let t = model.episode.slot[k]; t < Math.min(model.slots, endOf(model, i)); t++) if (isOver(model, m, t, "fuller")) over.push(t);
    if (!over.length) return [`Machine ${m} never overshot while ${name} ran there. `];
    return [`While ${name} ran there, machine ${m} overshot in ${plural(over.length, "slot")}, first in `,
      link(`slot ${number(over[0])}`, () => x.set({slot: over[0], machine: m})), ". "];
  }

  function drawTable(model, k) {
    const found = alternativesOf(model, k), terms = x.index.terms, {meaning} = model.scheduler;
    const scored = meaning && found.some(one => !Number.isNaN(one.score));
    const digits = digitsOf(Math.max(0, ...found.map(one => one.total).filter(Number.isFinite)));
    const head = ["Alternative", ...(scored ? [capital(meaning)] : []), ...terms.map(capital), "Total", "Difference"];
    const rows = found.map(one => {
      const costs = Number.isNaN(one.total)
        ? [make("td", {colspan: terms.length + 2, class: "quiet"}, "not simulated")]
        : [...one.costs, one.total].map(value => make("td", {class: "number"}, number(value, digits)))
          .concat(make("td", {class: "number strong"}, one.chosen ? "–" : signed(one.difference, digits)));
      const tags = [one.chosen && "chosen", one.cheapest && "cheapest", !one.possible && "ruled out"].filter(Boolean);
      const name = one.machine < 0 ? x.index.waiting : `machine ${one.machine}`;
      return make("tr", {class: [one.chosen && "chosen", one.cheapest && "cheapest", one.machine >= 0 && one.machine === x.view.machine && "current"].filter(Boolean).join(" "), "data-machine": one.machine},
        make("th", {scope: "row"}, one.machine < 0 ? make("span", {class: "name"}, name) : link(name, () => x.set({machine: one.machine})),
          ...tags.map(tag => make("span", {class: `tag ${tag === "ruled out" ? "not-possible" : tag}`}, tag))),
        ...(scored ? [make("td", {class: "number"}, scoreWords(one.score, meaning))] : []), ...costs);
    });
    fill(table, make("thead", null, make("tr", null, ...head.map((text, i) => make("th", {scope: "col", class: i ? "number" : null}, text)))),
      make("tbody", null, ...rows));
  }

  table.addEventListener("click", event => {
    const row = event.target.closest("tr[data-machine]");
    if (row && Number(row.dataset.machine) >= 0) x.set({machine: Number(row.dataset.machine)});
  });

  return {update};
}

function happened(model, k) {
  const name = short(model.tree.workloads.name[model.episode.workload[k]]), m = model.episode.chosen[k];
  return m < 0 ? `${name} was left waiting` : `${name} went to machine ${m}`;
}

const waitingWords = count => [count > 1 ? `${number(count)} workloads were in the queue. ` : "It was alone in the queue. "];

function scoreWords(score, meaning) {
  if (Number.isNaN(score)) return "–";
  if (meaning === "probability") return number(100 * score, 1) + " %";
  if (meaning === "expected cost") return amount(score);
  return Math.abs(score) >= 1e6 ? number(score) : String(Number(score.toPrecision(4))).replace("-", "−");
}
