/* Small things every page needs before and around Gradio: colours, the side column on narrow screens, keys. */
(() => {
  const looks = [];
  window.odPage = {
    /* The conversation that is shown. */
    chat: () => document.getElementById("od-marks")?.dataset.chat || "",
    /* `look` is called with every change of the page, before it is painted. */
    watch: (look) => looks.push(look),
  };
  new MutationObserver(() => looks.forEach((look) => look())).observe(document.documentElement, {
    childList: true, subtree: true, attributes: true, attributeFilter: ["data-chat", "data-marks", "data-now", "data-read"],
  });

  // Enter and Escape that end a composition belong to the input method. Safari says so by the key's old code alone.
  window.addEventListener("keydown", (event) => {
    const composing = event.isComposing || event.keyCode === 229;
    if (composing && (event.key === "Enter" || event.key === "Escape")) event.stopImmediatePropagation();
  }, true);

  const cookie = (name) => (document.cookie.match(new RegExp("(?:^|; )" + name + "=([^;]*)")) || [])[1];

  // Another tab may have gone over to another profile. This one follows, or what is clicked here would be the other's.
  const whose = () => cookie("omnidraft_profile") || "";
  const mine = whose();
  const follow = () => {
    if (whose() === mine) return;
    if (location.pathname.startsWith("/c/")) location.replace("/");
    else location.reload();
  };
  setInterval(follow, 1000);
  document.addEventListener("visibilitychange", follow);

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
  document.addEventListener("DOMContentLoaded", () => {
    paint();
    new MutationObserver(paint).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  });

  // Classes go on the shell, not the body: Gradio confines rules inside media queries to its own container.
  const shell = () => document.getElementById("od-shell");
  const isOpen = (name) => Boolean(shell()?.classList.contains(name));
  const side = (open) => {
    const was = isOpen("od-side-open");
    shell()?.classList.toggle("od-side-open", open);
    // Who opened it with a key goes on in it, and comes back to where it was opened.
    if (open && !was) document.querySelector(".od-nav a[aria-current], .od-nav a")?.focus();
    if (was && !open && document.activeElement?.closest("#od-side")) document.querySelector("[data-od=side]")?.focus();
    for (const b of document.querySelectorAll("[data-od=side]")) b.setAttribute("aria-expanded", String(open));
  };
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    if (!target) return;
    // Gradio makes every link in the empty chat open a tab of its own; to this program's pages they lead in this one.
    const inside = target.closest(".od-empty a[href^='/']");
    if (inside && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      location.href = inside.href;
    }
    const profile = target.closest("button[data-profile]");
    if (profile) work(profile.dataset.profile);
    if (target.closest("[data-od=side]")) side(!isOpen("od-side-open"));
    else if (target.closest("[data-od=aside]")) aside(!isOpen("od-aside-open"));
    else {
      if (!target.closest("#od-side") || target.closest("[data-kind=open], #od-new")) side(false);
      if (target.isConnected && !target.closest("#od-aside, .od-turn, .options")) aside(false);
    }
  });

  // The second click of a double click says nothing new, and would be done behind the first, or to what comes in its place.
  document.addEventListener("click", (event) => {
    if (event.detail < 2 || !event.target.closest?.("[data-kind]")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  const aside = (open) => {
    shell()?.classList.toggle("od-aside-open", open);
    for (const b of document.querySelectorAll("[data-od=aside]")) b.setAttribute("aria-expanded", String(open));
  };
  window.odPage.aside = aside;

  // A word's explanation, over the page beside it, while the pointer or the keyboard is there; a tap is both.
  const bubble = document.createElement("div");
  bubble.id = "od-bubble";
  bubble.setAttribute("role", "tooltip");
  const explain = (event) => {
    const word = event.target instanceof Element && event.target.closest(".od-tip");
    document.querySelector("[aria-describedby=od-bubble]")?.removeAttribute("aria-describedby");
    if (!word || event.type.endsWith("out")) return bubble.remove();
    bubble.textContent = word.dataset.tip;
    (document.querySelector(".gradio-container") || document.body).append(bubble);
    word.setAttribute("aria-describedby", "od-bubble");
    const at = word.getBoundingClientRect();
    bubble.style.left = `${Math.max(8, Math.min(at.left, innerWidth - bubble.offsetWidth - 8))}px`;
    const below = at.bottom + 6 + bubble.offsetHeight < innerHeight;
    bubble.style.top = `${below ? at.bottom + 6 : at.top - 6 - bubble.offsetHeight}px`;
  };
  for (const kind of ["pointerover", "pointerout", "focusin", "focusout", "click"]) document.addEventListener(kind, explain);

  const visible = (selector) => {
    const found = document.querySelector(selector);
    return found && found.offsetParent !== null ? found : null;
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
      if (isOpen("od-side-open")) side(false);
      else if (isOpen("od-aside-open")) aside(false);
      else (visible("#od-cancel") || visible("#od-stop"))?.click();
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

  // Another profile is a choice of this browser's alone: a cookie, then everything is loaded anew.
  const work = (name) => {
    document.cookie = `omnidraft_profile=${encodeURIComponent(name)};path=/;max-age=31536000;samesite=strict`;
    location.href = "/";
  };
  // Whose conversations these are, where there is more than one profile.
  const fill = async () => {
    const who = document.querySelector(".od-who[hidden]");
    if (!who || who.dataset.asked) return;
    who.dataset.asked = "yes";
    const told = await fetch("/profile-names").then((answer) => (answer.ok ? answer.json() : null)).catch(() => null);
    if (!told || told.names.length < 2) return;
    const select = who.querySelector("select");
    for (const name of told.names) select.add(new Option(name, name, name === told.here, name === told.here));
    select.addEventListener("change", () => work(select.value));
    who.hidden = false;
  };
  window.odPage.watch(fill);
})();
