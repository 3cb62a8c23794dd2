/* Texts of a conversation once they are drawn: their `<` comes back, code can be copied, links ask before they leave. */
(() => {
  const LESS = "\ufdd0"; // sent in place of `<`, so that nothing in a text is ever taken for HTML
  const inside = (element) => element instanceof Element && element.closest("#od-chat .message");

  const CODED = encodeURI(LESS);
  /* An address in the text ends where a `<` stands, which its link was drawn across. */
  const cut = (link) => {
    const [address] = (link.getAttribute("href") ?? "").split(CODED).flatMap((part) => part.split(LESS));
    const at = link.textContent.indexOf(LESS);
    const rest = at < 0 ? "" : link.textContent.slice(at);
    if (rest && /^(https?:|www\.)/i.test(link.textContent)) {
      link.textContent = link.textContent.slice(0, at);
      link.after(rest);
      link.setAttribute("href", address);
    } else link.setAttribute("href", link.getAttribute("href").replaceAll(CODED, "%3C").replaceAll(LESS, "%3C"));
  };
  const restore = (root) => {
    if (root.nodeType === Node.ELEMENT_NODE) {
      const links = `a[href*="${CODED}"], a[href*="${LESS}"]`;
      [...(root.matches(links) ? [root] : []), ...root.querySelectorAll(links)].forEach(cut);
    }
    if (!root.textContent.includes(LESS)) return;
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node = root.nodeType === Node.TEXT_NODE ? root : walker.nextNode(); node; node = walker.nextNode()) {
      if (node.data.includes(LESS)) node.data = node.data.replaceAll(LESS, "<");
    }
  };
  // An observer runs before anything is painted: nobody sees the character, and nobody copies it.
  const seen = (changes) => {
    for (const change of changes) {
      for (const node of change.addedNodes) {
        if (node.nodeType === Node.TEXT_NODE || node.nodeType === Node.ELEMENT_NODE) restore(node);
        if (node.nodeType === Node.ELEMENT_NODE) name(node);
      }
    }
  };
  const name = (root) => {
    const buttons = root.matches(".copy_code_button") ? [root] : root.querySelectorAll(".copy_code_button");
    for (const button of buttons) {
      button.title = "Copy this code";
      button.setAttribute("aria-label", "Copy this code");
    }
  };
  document.addEventListener("DOMContentLoaded", () =>
    new MutationObserver(seen).observe(document.body, { childList: true, subtree: true }));

  /* Puts a text, or the promise of one, on the clipboard; what says whether it got there comes back. */
  const copy = async (text) => {
    if (navigator.clipboard?.write && window.ClipboardItem) {
      // The promise goes in whole: some browsers let nobody write who has awaited something since the click.
      const blob = Promise.resolve(text).then((whole) => new Blob([whole], { type: "text/plain" }));
      return navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
    }
    const field = document.createElement("textarea"); // for browsers that know no other way
    field.value = await text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (!done) throw new Error("the browser refused");
  };
  const copyWith = async (button, text) => {
    const label = button.title;
    let said = "Copied";
    try {
      await copy(text);
    } catch {
      said = "Could not be copied";
    }
    button.classList.toggle("od-done", said === "Copied");
    button.title = said;
    button.setAttribute("aria-label", said);
    setTimeout(() => {
      button.classList.remove("od-done");
      button.title = label;
      button.setAttribute("aria-label", label);
    }, 1800);
  };
  window.odAnswers = { copyWith };

  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("#od-chat .copy_code_button");
    if (!button) return;
    event.stopImmediatePropagation();
    copyWith(button, button.parentElement.querySelector("pre code").textContent.replace(/\n$/, ""));
  }, true);

  // Whatever an answer links to: where it leads is said in full, and nothing is told to the place but that it was asked.
  const leaving = (event) => {
    const link = event.target instanceof Element && event.target.closest("a[href]");
    if (!link || event.button > 1 || !(inside(link) || link.origin !== location.origin)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    ask(link.href.replaceAll(encodeURIComponent(LESS), "%3C"));
  };
  document.addEventListener("click", leaving, true);
  document.addEventListener("auxclick", leaving, true);
  document.addEventListener("submit", (event) => {
    if (inside(event.target)) event.preventDefault();
  }, true);
  const ask = (address) => {
    const dialog = document.createElement("dialog");
    dialog.id = "od-leave";
    dialog.setAttribute("aria-labelledby", "od-leave-title");
    dialog.innerHTML =
      '<form method="dialog"><h2 id="od-leave-title">Leave OmniDraft?</h2><p>The link leads to</p><code></code>' +
      "<p>It opens in a tab of its own. That place learns your address, and nothing of this conversation but what " +
      'the link itself says.</p><div><button value="open">Open it</button><button value="stay">Stay here</button></div></form>';
    dialog.querySelector("code").textContent = address;
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (dialog.returnValue === "open") window.open(address, "_blank", "noopener,noreferrer");
    });
    (document.querySelector(".gradio-container") || document.body).append(dialog);
    dialog.showModal();
    dialog.querySelector("[value=stay]").focus();
  };
})();
