// Starts the page of the index's kind, or says in words why it cannot.

const DAMAGED = "This file is damaged or incomplete, so it cannot be shown. Copy it again, or make it again.";
const OLD = "This browser is too old to unpack the file's data. Use Chrome or Edge 97, Firefox 113, Safari 16.4, or later.";

async function boot() {
  if (!canUnpack()) {
    trouble(OLD);
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
  document.body.dataset.broken = short(String(error.message), 200);
  trouble(error instanceof Damaged ? DAMAGED : `The page could not show this file's data, which may be damaged: ${short(String(error.message), 200)}`);
}

// Tests and people who measure wait for this.
function ready() {
  if (document.body.dataset.ready) return;
  document.body.dataset.ready = "yes";
  document.body.dataset.readyMs = String(Math.round(performance.now()));
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", boot);
else boot();
