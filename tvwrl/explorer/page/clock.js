// The clock: a slider over the slots, play and pause, steps from decision to decision.

const SPEEDS = [[4, "4 slots/s"], [12, "12 slots/s"], [30, "30 slots/s"], [90, "90 slots/s"]];

function makeClock(x) {
  const slider = byId("slot"), button = byId("play"), speed = byId("speed");
  let playing = false, last = 0, owed = 0;

  select(speed, SPEEDS, () => {});
  speed.value = "12";
  slider.addEventListener("input", () => x.set({slot: Number(slider.value)}));
  button.addEventListener("click", toggle);
  byId("previous-decision").addEventListener("click", () => step(-1));
  byId("next-decision").addEventListener("click", () => step(1));

  function toggle() {
    playing = !playing && x.a.slots > 0;
    if (playing && x.view.slot >= x.a.slots - 1) x.set({slot: 0});
    last = 0;
    owed = 0;
    if (playing) requestAnimationFrame(tick);
    show();
  }

  function tick(now) {
    if (!playing || !x.a) return;
    owed += last ? (now - last) / 1000 * Number(speed.value) : 0;
    last = now;
    const steps = Math.floor(owed);
    owed -= steps;
    const slot = Math.min(x.a.slots - 1, x.view.slot + steps);
    x.set({slot});
    if (slot >= x.a.slots - 1) toggle();
    else requestAnimationFrame(tick);
  }

  // To the next decision: from the chosen one if it is of this slot, otherwise from the slot.
  function step(way) {
    const slots = x.a.episode.slot, {slot, decision} = x.view;
    let k;
    if (decision >= 0 && slots[decision] === slot) k = decision + way;
    else if (way > 0) k = slots.findIndex(at => at > slot);
    else k = slots.findLastIndex(at => at < slot);
    if (k >= 0 && k < slots.length) x.chooseDecision(k);
  }

  function move(way) {
    x.set({slot: Math.max(0, Math.min(x.a.slots - 1, x.view.slot + way))});
  }

  function show() {
    const {slots} = x.a, {slot} = x.view, seconds = x.index.slot_seconds;
    slider.max = String(Math.max(0, slots - 1));
    slider.value = String(slot);
    slider.disabled = !slots;
    const words = slots ? `Slot ${number(slot)} of ${number(slots)}, ${slot ? `${duration(slot * seconds)} after` : "at"} the start` : "No slots";
    slider.setAttribute("aria-valuetext", words);
    byId("slot-words").textContent = words;
    button.textContent = playing ? "Pause" : "Play";
    button.setAttribute("aria-pressed", String(playing));
  }

  return {show, toggle, step, move, isPlaying: () => playing};
}
