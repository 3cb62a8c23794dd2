/* Files on their way into a message: chosen, dropped or pasted, each sent and read before the next, so that none takes
   another's place. A message that is sent meanwhile waits for them. */
(() => {
  const coming = []; // files that the server has not read yet; the first is on its way
  const refused = []; // sentences
  let number = 0; // of the last one that began
  let held = false; // a message waits
  let chat = "";
  let over = () => {}; // called when the server has read the first one

  const make = (tag, name, text) => Object.assign(document.createElement(tag), { className: name, textContent: text });
  const chip = (name, about, title, off) => {
    const made = make("li", "", "");
    const button = Object.assign(make("button", "", "×"), { type: "button", title });
    button.setAttribute("aria-label", title);
    button.addEventListener("click", off);
    made.append(make("span", "", name), make("small", "", about), button);
    return made;
  };
  const draw = () => {
    let list = document.getElementById("od-coming");
    if (!list) {
      const place = document.getElementById("od-attached");
      if (!place) return;
      list = make("ul", "od-chips", "");
      list.id = "od-coming";
      list.setAttribute("aria-label", "Files being read");
      place.before(list);
    }
    const rows = coming.map((one) =>
      chip(one.file.name, "being read …", `Leave ${one.file.name} out`, () => leave(one)));
    if (held) rows.push(make("li", "od-sum", "The message goes when they are read."));
    rows.push(...refused.map((text) => {
      const row = chip(text, "", "Close", () => { refused.splice(refused.indexOf(text), 1); draw(); });
      row.className = "od-bad";
      row.setAttribute("role", "alert");
      return row;
    }));
    list.replaceChildren(...rows);
  };
  const leave = (one) => {
    if (one === coming[0]) {
      one.stop.abort();
      over();
    }
    coming.splice(coming.indexOf(one), 1);
    draw();
    settle();
  };
  const settle = () => {
    if (coming.length || !held) return;
    held = false;
    draw();
    if (refused.length) document.querySelector("#od-box textarea")?.focus(); // whether it goes without them is not ours to say
    else setTimeout(() => document.querySelector("#od-send")?.click(), 100);
  };
  const bring = async (one) => {
    const body = new FormData();
    body.append("files", one.file);
    const answer = await fetch("/gradio_api/upload", { method: "POST", body, signal: one.stop.signal });
    if (!answer.ok) throw new Error(answer.status === 413 ? "is too large to be attached" : "could not be sent");
    const [path] = await answer.json();
    await new Promise((done) => {
      over = done;
      if (one.stop.signal.aborted) done();
      else window.odRead({ path, number: (number += 1) });
    });
  };
  const go = async () => {
    while (coming.length) {
      const one = coming[0];
      try {
        await bring(one);
      } catch (error) {
        if (!one.stop.signal.aborted) {
          const why = error instanceof TypeError ? "could not be sent: the app does not answer" : error.message;
          refused.push(`${one.file.name} ${why}.`);
        }
      }
      if (coming[0] === one) coming.shift();
      draw();
    }
    settle();
  };
  const take = (files) => {
    const idle = !coming.length;
    coming.push(...[...files].map((file) => ({ file, stop: new AbortController() })));
    draw();
    if (idle && coming.length) go();
  };
  // For who sends a message: whether it has to wait. It goes by itself then.
  window.odFiles = {
    wait: () => {
      held = coming.length > 0;
      if (!held) refused.length = 0;
      draw();
      return held;
    },
  };

  // What was attached in one conversation stays out of the next.
  const look = () => {
    const now = window.odPage.chat();
    if (now && chat && now !== chat) {
      for (const one of coming.splice(0)) one.stop.abort();
      refused.length = 0;
      held = false;
      over();
      draw();
    }
    chat = now || chat;
    const read = document.querySelector("#od-reading [data-read]");
    if (!read || Number(read.dataset.read) !== number || read.dataset.told) return;
    read.dataset.told = "yes";
    refused.push(...JSON.parse(read.dataset.refused));
    over();
  };
  window.odPage.watch(look);

  const holdsFiles = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  window.addEventListener("change", (event) => {
    if (!event.target.matches?.("#od-composer input[type=file]")) return;
    event.stopImmediatePropagation();
    take(event.target.files);
    event.target.value = ""; // the same file may be chosen again
  }, true);
  document.addEventListener("dragover", (event) => {
    if (holdsFiles(event) && event.target.closest?.("#od-main")) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!holdsFiles(event) || !event.target.closest?.("#od-main")) return;
    event.preventDefault();
    take(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => {
    const pasted = event.clipboardData?.files;
    if (!pasted?.length || !event.target.closest?.("#od-box")) return;
    event.preventDefault();
    take(pasted);
  });
})();
