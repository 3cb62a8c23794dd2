/* What stands below each message of a conversation, and what answers may not do by themselves. */
(() => {
  const aside = (open) => window.odPage.aside(open);

  // Below each message: its versions and what can be done with it. The server says which row is which message.
  const icons = {
    copy: "M9 9h11v11H9zM5 15H4V4h11v1",
    fork: "M7 4v7a5 5 0 005 5h5M13 12l4 4-4 4M7 20v-9",
    delete: "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12",
    edit: "M4 20l1-4L16 5l3 3L8 19z",
    regenerate: "M5 12a7 7 0 0112-5l2 2M19 4v5h-5M19 12a7 7 0 01-12 5l-2-2M5 20v-5h5",
    continue: "M5 6v8a4 4 0 004 4h10M15 14l4 4-4 4",
    tokens: "M4 7h6M12 7h8M4 12h9M15 12h5M4 17h4M10 17h10",
  };
  const words = {
    copy: "Copy",
    edit: "Edit",
    fork: "Go on from here in a new conversation",
    delete: "Delete this question and its answers",
    regenerate: "Answer again",
    continue: "Continue",
    tokens: "Show where its tokens came from",
  };
  let edited = ""; // the message in the box, to be sent in another form
  const make = (tag, named, text = "") =>
    Object.assign(document.createElement(tag), { className: named, textContent: text });
  const button = (label, act, inside) => {
    const made = document.createElement("button");
    made.type = "button";
    made.title = label;
    made.setAttribute("aria-label", label);
    made.innerHTML = inside;
    made.addEventListener("click", (event) => {
      event.stopPropagation();
      if (!act) return;
      window.odTurn?.(act);
      if (act.kind === "tokens") showTokens();
      edited = act.kind === "edit" ? act.id : "";
      decorate();
      if (act.kind === "edit") document.querySelector("#od-box textarea")?.focus();
    });
    return made;
  };
  const icon = (kind) => `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${icons[kind]}"/></svg>`;
  const action = (kind, id) => button(words[kind], { kind, id }, icon(kind));
  // Deleting asks first, in the same place.
  const remove = (id) => {
    const ask = button(words.delete, null, icon("delete"));
    ask.addEventListener("click", () => {
      const sure = make("span", "od-turn-sure");
      sure.setAttribute("role", "alertdialog");
      sure.setAttribute("aria-label", words.delete);
      const keep = button("Keep it", null, "Keep");
      keep.addEventListener("click", () => { sure.replaceWith(ask); ask.focus(); });
      sure.append("Delete for good?", button(words.delete, { kind: "delete", id }, "Delete"), keep);
      ask.replaceWith(sure);
      keep.focus();
    });
    return ask;
  };
  // The text as it was written, which only the server has: what is drawn is no Markdown any more.
  const written = async (id) => {
    const reply = await fetch(`/message/${id}`);
    if (!reply.ok) throw new Error(reply.status);
    return reply.text();
  };
  const copy = (id) => {
    const made = button(words.copy, null, icon("copy"));
    made.addEventListener("click", () => window.odAnswers.copyWith(made, written(id)));
    return made;
  };
  const showTokens = () => {
    if (innerWidth <= 1080) aside(true);
    [...document.querySelectorAll("#od-tabs button[role=tab]")].find((t) => t.textContent.trim() === "Tokens")?.click();
  };
  const bar = (mark) => {
    const made = make("div", "od-turn");
    made.dataset.key = JSON.stringify(mark);
    if (mark.model) {
      const model = make("small", "od-model", mark.model);
      model.title = mark.model;
      made.append(model);
    }
    if (mark.out) made.append(make("small", "", "Left out of what the model reads"));
    if (mark.count > 1) {
      const place = make("span", "", `${mark.place} / ${mark.count}`);
      place.setAttribute("aria-label", `version ${mark.place} of ${mark.count}`);
      made.append(
        button("Earlier version", { kind: "version", id: mark.id, step: -1 }, "‹"),
        place,
        button("Later version", { kind: "version", id: mark.id, step: 1 }, "›"),
      );
    }
    if (!mark.busy) made.append(copy(mark.id));
    if (!mark.busy) made.append(action("edit", mark.id), action("fork", mark.id));
    if (mark.role === "user") made.append(remove(mark.id));
    if (mark.again || (mark.role === "assistant" && mark.last)) {
      const again = action("regenerate", mark.id);
      if (mark.again) again.append(words.regenerate);
      again.classList.toggle("od-more", Boolean(mark.again));
      made.append(again);
    }
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
    const made = make("ul", "od-chips od-turn-files");
    made.setAttribute("aria-label", "Attached files");
    for (const [name, size] of mark.files) {
      const chip = make("li", "");
      chip.append(make("span", "", name), make("small", "", size));
      made.append(chip);
    }
    return made;
  };
  // Gradio would show them from copies on the disk, which nobody encrypts and nobody forgets.
  const pictures = (mark) => {
    const made = make("div", "od-pictures");
    for (const [name, digest] of mark.pictures) {
      const link = document.createElement("a");
      const image = document.createElement("img");
      image.alt = name;
      image.src = link.href = `/picture/${digest}`;
      link.target = "_blank";
      image.addEventListener("error", () => {
        link.replaceWith(make("p", "", `The picture ${name} is damaged or missing.`));
      });
      link.append(image);
      made.append(link);
    }
    return made;
  };
  // Lists with their markers, tables with their columns and quotes with their bars run as their first letter outside
  // code does; style sheets see to the text itself. Only what is new, and the message that may be growing.
  const NEW = "#od-chat .prose :is(ul, ol, li, table, blockquote)";
  const BLOCKS = `${NEW}:not([dir]), #od-chat .message-row:last-of-type .prose :is(ul, ol, li, table, blockquote)`;
  const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
  const prose = (block) => {
    if (!block.querySelector("code")) return block.textContent;
    const copy = block.cloneNode(true);
    for (const code of copy.querySelectorAll("code")) code.remove();
    return copy.textContent;
  };
  const decorate = () => {
    // Gradio calls these buttons a list, which may hold nothing but its items.
    const examples = document.querySelector("#od-chat .examples[role=list]");
    examples?.setAttribute("role", "group");
    examples?.setAttribute("aria-label", "Questions to begin with");
    // A fold is a button around a button; the inner one is but its arrow.
    for (const fold of document.querySelectorAll("#od-chat .thought-group > [role=button]")) {
      const arrow = fold.querySelector("button");
      if (arrow) arrow.disabled = true;
      arrow?.setAttribute("aria-hidden", "true");
      fold.setAttribute("aria-expanded", String(fold.classList.contains("expanded")));
    }
    for (const block of document.querySelectorAll(BLOCKS)) {
      const first = prose(block).match(/\p{L}/u)?.[0];
      const way = first && (RIGHT_TO_LEFT.test(first) ? "rtl" : "ltr");
      if (way && block.dir !== way) block.dir = way;
    }
    const marks = JSON.parse(document.getElementById("od-marks")?.dataset.marks || "[]");
    document.querySelectorAll("#od-chat .message-row").forEach((row, index) => {
      // Gradio repeats the whole text here, as it was sent; what is drawn can be read.
      const named = row.querySelector('[aria-label*="message:"]');
      named?.setAttribute("role", "group"); // only what has a role has a name
      named?.setAttribute("aria-label", row.classList.contains("user-row") ? "Question" : "Answer");
      const mark = marks[index];
      row.classList.toggle("od-edited", Boolean(edited) && mark?.id === edited);
      const old = row.querySelector(":scope > .od-turn");
      if (old && mark && old.dataset.key === JSON.stringify(mark)) return;
      old?.remove();
      row.querySelector(":scope > .od-turn-files")?.remove();
      row.querySelector(":scope > .od-pictures")?.remove();
      if (mark?.pictures) row.prepend(pictures(mark));
      if (mark?.files) row.append(files(mark));
      if (mark) row.append(bar(mark));
    });
  };
  // The newest line stays in view until somebody scrolls up, and again from when they are back at the end.
  let end = true;
  let top = 0;
  let shown = "";
  document.addEventListener("scroll", ({ target }) => {
    if (!(target instanceof Element) || !target.matches("#od-chat .panel-wrap")) return;
    const rest = target.scrollHeight - target.clientHeight - target.scrollTop;
    if (rest < 8) end = true;
    else if (target.scrollTop < top) end = false;
    top = target.scrollTop;
  }, true);
  const follow = () => {
    const field = document.querySelector("#od-chat .panel-wrap");
    const last = document.querySelector("#od-chat .message-row:last-of-type");
    const now = window.odPage.chat();
    const asked = document.querySelectorAll("#od-chat .user-row").length;
    if (shown !== `${now} ${asked}`) end = true; // another conversation, or a question just asked
    shown = `${now} ${asked}`;
    if (field && last && end) field.scrollTop = field.scrollHeight;
  };
  document.addEventListener("click", ({ target }) => {
    if (!(target instanceof Element) || !target.closest("#od-cancel")) return;
    edited = "";
    decorate();
  });
  document.addEventListener("click", ({ target }) => {
    const got = target instanceof Element && target.closest('.od-better a[href*="#get="]');
    if (got) sessionStorage.setItem("od-get", got.hash.slice("#get=".length));
  });
  // Tabs that show the same conversation follow each other: whoever shows other messages than before says so.
  const tabs = new BroadcastChannel("omnidraft conversations");
  const now = () => {
    const here = document.getElementById("od-marks");
    const ids = JSON.parse(here?.dataset.marks || "[]").map((mark) => mark?.id || "");
    return { chat: window.odPage.chat(), whose: document.cookie.match(/omnidraft_profile=([^;]*)/)?.[1] || "", ids: ids.join(" ") };
  };
  let last = { chat: "", ids: "" };
  const say = () => {
    const here = now();
    if (here.ids !== last.ids) edited = ""; // it was sent, or another conversation is shown
    if (here.chat === last.chat && here.ids !== last.ids) tabs.postMessage(here);
    last = here;
  };
  let heard;
  tabs.onmessage = ({ data }) => {
    clearTimeout(heard);
    heard = setTimeout(() => {
      const here = now();
      if (!here.chat || data.whose !== here.whose) return;
      if (data.chat !== here.chat) window.odTurn?.({ kind: "list" });
      else if (data.ids !== here.ids) window.odTurn?.({ kind: "again" });
    }, 300);
  };
  let due = false;
  window.odPage.watch(() => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => { due = false; decorate(); follow(); say(); });
  });
})();
