/* Settings in two layers: the folds of expert ones, the search through all of them, and addresses that name one.
   What is open stands in attributes: Gradio writes classes anew. */
(() => {
  const open = (layers, is) => {
    layers.toggleAttribute("data-all", is);
    layers.querySelector("[data-od=layers]")?.setAttribute("aria-expanded", String(is));
  };
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-od=layers]");
    const layers = button && button.closest(".od-layers");
    if (layers) open(layers, !layers.hasAttribute("data-all"));
  });

  // A field is found by the words of its name, its sentence and its name in the settings file.
  const words = (field) => `${field.innerText} ${field.id.replace("od-set-", "").replace("-", ".")}`.toLowerCase();
  document.addEventListener("input", (event) => {
    if (event.target.id !== "od-find") return;
    const page = event.target.closest("#od-page");
    const wanted = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    page.toggleAttribute("data-finding", wanted.length > 0);
    let found = 0;
    for (const field of page.querySelectorAll(".od-setting")) {
      const text = words(field);
      const is = wanted.every((word) => text.includes(word));
      field.toggleAttribute("data-miss", !is);
      found += is;
    }
    document.getElementById("od-found").textContent = wanted.length && !found ? "No setting has these words." : "";
  });

  // Whether the field that the address names can be seen.
  const reveal = () => {
    const field = location.hash.startsWith("#od-set-") && document.getElementById(location.hash.slice(1));
    const layers = field && field.closest(".od-layers");
    if (!layers) return false;
    open(layers, true);
    field.scrollIntoView({ block: "center" });
    return field.offsetParent !== null;
  };
  addEventListener("hashchange", reveal);
  // The page is drawn some moments after its address is known, and once more before its frame goes.
  if (location.hash.startsWith("#od-set-")) {
    const drawn = new MutationObserver(() => {
      if (reveal() && !document.getElementById("od-frame")) drawn.disconnect();
    });
    drawn.observe(document.documentElement, { childList: true, subtree: true });
  }
})();
