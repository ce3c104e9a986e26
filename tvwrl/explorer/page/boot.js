// Starts the page of the index's kind, or says in words why it cannot.

const DAMAGED = "This file is damaged or incomplete, so it cannot be shown. Make it again with tvwrl explore, or copy it again.";

async function boot() {
  if (!canUnpack()) {
    trouble("This browser cannot unpack the file's data. Chrome or Edge from version 80, Firefox from 113 and Safari from 16.4 can.");
    return;
  }
  try {
    const index = await unpack("index");
    byId("page").hidden = false;
    await start(index);
    byId("loading").hidden = true;
  } catch (error) {
    broken(error);
  }
}

function broken(error) {
  byId("page").hidden = true;
  trouble(DAMAGED);
  document.body.dataset.broken = String(error && error.message).slice(0, 200);
}

// Tests and people who measure wait for this.
function ready() {
  if (document.body.dataset.ready) return;
  document.body.dataset.ready = "yes";
  document.body.dataset.readyMs = String(Math.round(performance.now()));
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", boot);
else boot();
