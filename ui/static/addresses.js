/* The address and the title of what is shown: a conversation has its own, so that back, forward, a bookmark and another
   tab lead to it. */
(() => {
  let shown = ""; // the conversation whose address it is
  let wanted = ""; // which back or forward lead to, until it is there
  const row = (of) => document.querySelector(`#od-rows .od-item[data-id="${CSS.escape(of)}"] [data-kind=open]`);
  const name = () => {
    const page = document.querySelector("#od-head .od-nav a[aria-current]")?.textContent;
    const title = (shown && row(shown)?.querySelector("span").textContent) || (page !== "Chat" && page);
    const whole = title ? `${title} · OmniDraft` : "OmniDraft";
    if (document.title !== whole) document.title = whole;
  };
  const look = () => {
    const now = window.odPage.chat();
    if (now && now !== shown && (!wanted || now === wanted)) {
      const address = `/c/${now}`;
      // The first takes the place of what was asked for, which may have named no conversation, or one that is gone.
      if (location.pathname !== address) history[shown ? "pushState" : "replaceState"](null, "", address);
      [shown, wanted] = [now, ""];
    }
    name();
  };
  addEventListener("popstate", () => {
    wanted = location.pathname.match(/^\/c\/([^/]+)/)?.[1] || "";
    if (wanted === shown) wanted = "";
    else if (wanted && row(wanted)) row(wanted).click();
    else location.reload();
  });
  // Who chooses another one before it is there does not want it any more.
  document.addEventListener("click", (event) => {
    if (event.isTrusted && event.target.closest?.("#od-new, #od-rows [data-kind=open]")) wanted = "";
  }, true);
  window.odPage.watch(look);
})();
