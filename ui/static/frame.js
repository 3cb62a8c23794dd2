/* The page's frame stands at once; the page comes in its place when the server has filled it, in one step, so that
   nothing moves under a reader's eyes. */
(() => {
  const FILLED =
    "#od-marks, #od-models :is(li, .od-none), #od-drift-progress p, #od-learning-state p, #od-cache :is(.od-none, .od-facts), #od-profiles article";
  const QUIET = 30; // milliseconds without a change: what the server said is drawn
  const PATIENCE = 8000; // for a server that does not answer; the page itself says so
  const root = document.documentElement;
  const chosen = (document.cookie.match(/(?:^|; )omnidraft_theme=([^;]*)/) || [])[1];
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  root.classList.toggle("od-dark", dark);
  let timer, filled;
  const show = () => {
    watch.disconnect();
    for (const due of [late, timer]) clearTimeout(due);
    document.getElementById("od-frame")?.remove();
    root.classList.remove("od-arriving");
    const box = document.querySelector("#od-box textarea");
    if (box && document.activeElement === document.body && matchMedia("(pointer: fine)").matches) box.focus();
  };
  const late = setTimeout(show, PATIENCE);
  const watch = new MutationObserver(() => {
    filled ||= document.querySelector(FILLED) && performance.now();
    if (!filled) return;
    clearTimeout(timer);
    timer = setTimeout(show, Math.max(0, Math.min(QUIET, filled + 2 * QUIET - performance.now())));
  });
  watch.observe(root, { childList: true, subtree: true });
})();
