/* What people write: texts not sent yet, and every way in which a field may change. */
(() => {
  // Gradio tells of a text that changed when keys are pressed, and of nothing else: not of what was pasted, cut, deleted
  // or composed. So it is told of a key a moment after every other change.
  const waiting = new Map();
  const isText = (field) =>
    field instanceof Element && field.matches("#od-shell textarea, #od-shell input[type=text], #od-shell input[type=search]") &&
    !field.closest("#od-box");
  let told = -Infinity;
  const tell = (field) => {
    clearTimeout(waiting.get(field));
    waiting.delete(field);
    told = performance.now();
    field.dispatchEvent(new KeyboardEvent("keypress", { key: "Unidentified", bubbles: true }));
  };
  const changed = (event) => {
    if (!isText(event.target) || event.isComposing) return;
    clearTimeout(waiting.get(event.target));
    waiting.set(event.target, setTimeout(tell, 200, event.target));
  };
  document.addEventListener("input", changed);
  document.addEventListener("compositionend", changed);
  document.addEventListener("focusout", (event) => {
    if (waiting.has(event.target)) tell(event.target);
  });

  // Gradio sends what it is told of some moments later. A click that leads to another conversation goes behind that,
  // or the server would take the text for the other one's.
  const SENT = 300; // milliseconds
  let again = false;
  document.addEventListener("click", (event) => {
    const leaving = event.target.closest?.("#od-new, #od-rows [data-kind=open]");
    const elsewhere = event.ctrlKey || event.metaKey || event.shiftKey; // a tab of its own
    if (!leaving || again || elsewhere || performance.now() - told > SENT) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    setTimeout(() => {
      again = true;
      leaving.click();
      again = false;
    }, SENT);
  }, true);

  // A message that is not sent yet stays with its conversation: through a reload, a server that was away, another chat.
  // The server never writes into the box when it shows another one; between the click and that, what is typed belongs to
  // the conversation to come, and is sent when it is there.
  const box = () => document.querySelector("#od-box textarea");
  const key = (of) => `omnidraft unsent ${of}`;
  const editing = () => document.querySelector("#od-cancel")?.offsetParent != null;
  let chat = ""; // whose text stands in the box; "" on the way to the next
  let left = ""; // which was left for it
  let send = false; // as soon as it is there
  const keep = (text) => {
    if (!chat || editing()) return;
    if (text) sessionStorage.setItem(key(chat), text);
    else sessionStorage.removeItem(key(chat));
  };
  const kept = () => sessionStorage.getItem(key(chat)) || "";
  const put = (text) => {
    const field = box();
    if (!field || field.value === text) return;
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  };
  document.addEventListener("input", (event) => {
    if (event.target === box()) keep(event.target.value);
  });
  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // it opens elsewhere
    const row = event.target.closest?.("#od-rows [data-kind=open]")?.closest(".od-item").dataset.id;
    const fresh = event.target.closest?.("#od-new") && !document.querySelector(".od-empty");
    if (fresh || (row && row !== chat)) {
      const on = chat;
      [chat, left] = ["", chat]; // who goes on before they arrived may come back to where they were
      if (on) put("");
    }
    if (event.target.closest?.("#od-new") && matchMedia("(pointer: fine)").matches) box()?.focus();
    if (event.target.closest?.("#od-cancel")) put(kept());
  });
  const look = () => {
    const now = window.odPage.chat();
    if (!now || now === chat || now === left || !box()) return;
    const typed = chat ? "" : box().value;
    [chat, left] = [now, ""];
    put(typed || kept());
    keep(box().value);
    if (send) setTimeout(() => document.querySelector("#od-send").click(), 100);
    send = false;
  };
  // A message that was refused, or never arrived, stands in the box a moment later, and no event tells of it.
  const sent = (event) => {
    if (!chat || window.odFiles.wait()) {
      event.preventDefault();
      event.stopImmediatePropagation();
      send ||= !chat;
      return;
    }
    const then = chat;
    keep("");
    setTimeout(() => chat === then && keep(box()?.value || ""), 1500);
  };
  document.addEventListener("keydown", (event) => {
    if (event.target === box() && event.key === "Enter" && !event.shiftKey) sent(event);
  }, true);
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("#od-send")) sent(event);
  }, true);
  window.odPage.watch(look);
})();
