/* Small things every page needs before and around Gradio: colours, the side column on narrow screens, keys. */
(() => {
  const cookie = (name) => (document.cookie.match(new RegExp("(?:^|; )" + name + "=([^;]*)")) || [])[1];

  // Gradio follows the system's colours; a choice made in the settings wins over it.
  const paint = () => {
    const chosen = cookie("omnidraft_theme");
    if (!document.body || (chosen !== "dark" && chosen !== "light")) return;
    if (document.body.classList.contains("dark") !== (chosen === "dark")) {
      document.body.classList.toggle("dark", chosen === "dark");
    }
  };
  document.addEventListener("DOMContentLoaded", () => {
    paint();
    new MutationObserver(paint).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  });

  const side = (open) => {
    document.body.classList.toggle("od-side-open", open);
    for (const b of document.querySelectorAll("[data-od=side]")) b.setAttribute("aria-expanded", String(open));
  };
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    if (!target) return;
    if (target.closest("[data-od=side]")) side(!document.body.classList.contains("od-side-open"));
    else if (!target.closest("#od-side")) side(false);
  });

  const visible = (selector) => {
    const found = document.querySelector(selector);
    return found && found.offsetParent !== null ? found : null;
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (document.body.classList.contains("od-side-open")) side(false);
      else visible("#od-stop")?.click();
    }
  });
})();
