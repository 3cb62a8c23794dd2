/* Small things every page needs before and around Gradio: colours, the side column on narrow screens, keys. */
(() => {
  // Gradio puts this into the page twice; a second set of listeners would undo what the first one does.
  if (window.odLoaded) return;
  window.odLoaded = true;

  const cookie = (name) => (document.cookie.match(new RegExp("(?:^|; )" + name + "=([^;]*)")) || [])[1];

  // Gradio follows the system's colours; a choice made in the settings wins over it.
  const paint = () => {
    const chosen = cookie("omnidraft_theme");
    if (!document.body || (chosen !== "dark" && chosen !== "light")) return;
    if (document.body.classList.contains("dark") !== (chosen === "dark")) {
      document.body.classList.toggle("dark", chosen === "dark");
    }
  };
  window.odPaint = () => {
    const chosen = cookie("omnidraft_theme");
    if (chosen === "system") {
      document.body.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
    } else paint();
  };
  // Gradio adds this script when the page is already there, or with it: both must work.
  const ready = (run) => (document.body ? run() : document.addEventListener("DOMContentLoaded", run));
  ready(() => {
    paint();
    new MutationObserver(paint).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  });

  // Classes go on the shell, not the body: Gradio confines rules inside media queries to its own container.
  const shell = () => document.getElementById("od-shell");
  const isOpen = (name) => Boolean(shell()?.classList.contains(name));
  const side = (open) => {
    shell()?.classList.toggle("od-side-open", open);
    for (const b of document.querySelectorAll("[data-od=side]")) b.setAttribute("aria-expanded", String(open));
  };
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    if (!target) return;
    if (target.closest("[data-od=side]")) side(!isOpen("od-side-open"));
    else if (target.closest("[data-od=aside]")) aside(!isOpen("od-aside-open"));
    else {
      if (!target.closest("#od-side") || target.closest("[data-kind=open], #od-new")) side(false);
      if (target.isConnected && !target.closest("#od-aside, .od-turn, .options")) aside(false);
    }
  });

  // Below each message: its versions and what can be done with it. The server says which row is which message.
  const icons = {
    edit: "M4 20l1-4L16 5l3 3L8 19z",
    regenerate: "M5 12a7 7 0 0112-5l2 2M19 4v5h-5M19 12a7 7 0 01-12 5l-2-2M5 20v-5h5",
    continue: "M5 6v8a4 4 0 004 4h10M15 14l4 4-4 4",
    tokens: "M4 7h6M12 7h8M4 12h9M15 12h5M4 17h4M10 17h10",
  };
  const words = { edit: "Edit", regenerate: "Answer again", continue: "Continue", tokens: "Show where its tokens came from" };
  const button = (label, act, inside) => {
    const made = document.createElement("button");
    made.type = "button";
    made.title = label;
    made.setAttribute("aria-label", label);
    made.innerHTML = inside;
    made.addEventListener("click", (event) => {
      event.stopPropagation();
      window.odTurn?.(act);
      if (act.kind === "tokens") showTokens();
      if (act.kind === "edit") setTimeout(() => document.querySelector("#od-box textarea")?.focus(), 300);
    });
    return made;
  };
  const action = (kind, id) =>
    button(words[kind], { kind, id }, `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${icons[kind]}"/></svg>`);
  const showTokens = () => {
    if (innerWidth <= 1080) aside(true);
    [...document.querySelectorAll("#od-tabs button[role=tab]")].find((t) => t.textContent.trim() === "Tokens")?.click();
  };
  const bar = (mark) => {
    const made = document.createElement("div");
    made.className = "od-turn";
    made.dataset.key = JSON.stringify(mark);
    if (mark.count > 1) {
      const place = document.createElement("span");
      place.textContent = `${mark.place} / ${mark.count}`;
      place.setAttribute("aria-label", `version ${mark.place} of ${mark.count}`);
      made.append(
        button("Earlier version", { kind: "version", id: mark.id, step: -1 }, "‹"),
        place,
        button("Later version", { kind: "version", id: mark.id, step: 1 }, "›"),
      );
    }
    if (mark.role === "user") made.append(action("edit", mark.id));
    if (mark.role === "assistant" && mark.last) made.append(action("regenerate", mark.id));
    if (mark.cut !== undefined) {
      // An answer that was cut off says so with a word; any other can be made longer.
      const more = action("continue", mark.id);
      if (mark.cut) more.append(words.continue);
      more.classList.toggle("od-more", mark.cut);
      made.append(more);
    }
    if (mark.role === "assistant" && !mark.busy) made.append(action("tokens", mark.id));
    return made;
  };
  // Beside the text, so that copying a message does not copy them.
  const files = (mark) => {
    const made = document.createElement("ul");
    made.className = "od-chips od-turn-files";
    made.setAttribute("aria-label", "Attached files");
    for (const [name, size] of mark.files) {
      const chip = document.createElement("li");
      const [text, small] = [document.createElement("span"), document.createElement("small")];
      text.textContent = name;
      small.textContent = size;
      chip.append(text, small);
      made.append(chip);
    }
    return made;
  };
  const decorate = () => {
    const marks = JSON.parse(document.getElementById("od-marks")?.dataset.marks || "[]");
    document.querySelectorAll("#od-chat .message-row").forEach((row, index) => {
      const mark = marks[index];
      const old = row.querySelector(":scope > .od-turn");
      if (old && mark && old.dataset.key === JSON.stringify(mark)) return;
      old?.remove();
      row.querySelector(":scope > .od-turn-files")?.remove();
      if (mark?.files) row.append(files(mark));
      if (mark) row.append(bar(mark));
    });
  };
  let due = false;
  ready(() => {
    new MutationObserver(() => {
      if (due) return;
      due = true;
      requestAnimationFrame(() => { due = false; decorate(); });
    }).observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-marks"] });
  });

  // Files dropped on the conversation, or pasted, are attached as if chosen with the button.
  const attach = (list) => {
    const input = document.querySelector("#od-attach ~ input[type=file], #od-composer input[type=file]");
    if (!input) return;
    const carried = new DataTransfer();
    for (const file of list) carried.items.add(file);
    input.files = carried.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  };
  const holdsFiles = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  document.addEventListener("dragover", (event) => {
    if (holdsFiles(event) && event.target.closest?.("#od-main")) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!holdsFiles(event) || !event.target.closest?.("#od-main")) return;
    event.preventDefault();
    attach(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => {
    const pasted = event.clipboardData?.files;
    if (!pasted?.length || !event.target.closest?.("#od-box")) return;
    event.preventDefault();
    attach(pasted);
  });

  const aside = (open) => {
    shell()?.classList.toggle("od-aside-open", open);
    for (const b of document.querySelectorAll("[data-od=aside]")) b.setAttribute("aria-expanded", String(open));
  };
  const visible = (selector) => {
    const found = document.querySelector(selector);
    return found && found.offsetParent !== null ? found : null;
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (isOpen("od-side-open")) side(false);
      else if (isOpen("od-aside-open")) aside(false);
      else visible("#od-stop")?.click();
    }
    const control = event.ctrlKey || event.metaKey;
    if (control && event.shiftKey && event.key.toLowerCase() === "o") {
      event.preventDefault();
      document.querySelector("#od-new")?.click();
      document.querySelector("#od-box textarea")?.focus();
    }
    if (control && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (innerWidth <= 760) side(true);
      document.querySelector("#od-search textarea, #od-search input")?.focus();
    }
  });
})();
