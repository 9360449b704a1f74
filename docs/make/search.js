// Searches the pages in the browser. The index is a script, not a request: this works from file://.
(() => {
  const form = document.querySelector("form.search");
  const input = document.getElementById("search");
  const list = document.getElementById("found");
  const root = document.body.dataset.root;
  const most = 12;
  let loading = null;
  let active = -1;

  const wide = matchMedia("(min-width: 60rem)");
  const fold = document.getElementById("pages");
  const unfold = () => { fold.open = wide.matches; };
  wide.addEventListener("change", unfold);
  unfold();
  form.hidden = false;

  const load = () => loading ??= new Promise((done) => {
    const script = document.createElement("script");
    script.src = root + "search-index.js";
    script.onload = () => done(window.privalueIndex);
    document.head.append(script);
  });

  // Every word must occur; words in titles and headings count most.
  const score = (words, [, title, heading, text]) => {
    let sum = 0;
    for (const word of words) {
      const inTitle = title.toLowerCase().includes(word);
      const inHeading = heading.toLowerCase().includes(word);
      const times = text.toLowerCase().split(word).length - 1;
      if (!inTitle && !inHeading && !times) return 0;
      sum += 8 * inTitle + 12 * inHeading + Math.min(times, 6);
    }
    return sum;
  };

  const around = (text, word) => {
    const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
    return (at ? "…" : "") + text.slice(at, at + 120) + "…";
  };

  const show = async () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const index = await load();
    const found = words.length
      ? index.map((entry) => [score(words, entry), entry]).filter(([points]) => points)
        .sort((a, b) => b[0] - a[0]).slice(0, most)
      : [];
    list.replaceChildren(...found.map(([, [place, title, heading, text]]) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = root + place;
      const name = document.createElement("strong");
      name.textContent = heading && heading !== title ? `${title}: ${heading}` : title;
      const words_around = document.createElement("span");
      words_around.textContent = around(text, words[0]);
      link.append(name, words_around);
      item.append(link);
      return item;
    }));
    if (words.length && !found.length) {
      const item = document.createElement("li");
      item.textContent = "Nothing found.";
      list.append(item);
    }
    active = -1;
    list.hidden = !words.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
  };

  const move = (step) => {
    const links = [...list.querySelectorAll("a")];
    if (!links.length) return;
    active = (active + step + links.length) % links.length;
    links.forEach((link, at) => link.classList.toggle("active", at === active));
    links[active].scrollIntoView({ block: "nearest" });
  };

  const asked = new URLSearchParams(location.search).get("q");  // page.html?q=words
  if (asked) {
    input.value = asked;
    show();
  }
  input.addEventListener("input", show);
  input.addEventListener("focus", load);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const links = list.querySelectorAll("a");
    if (links.length) links[Math.max(active, 0)].click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(input|textarea)$/i.test(event.target.tagName)) {
      event.preventDefault();
      input.focus();
    }
    if (event.target === input && event.key === "ArrowDown") { event.preventDefault(); move(1); }
    if (event.target === input && event.key === "ArrowUp") { event.preventDefault(); move(-1); }
    if (event.key === "Escape") { list.hidden = true; input.setAttribute("aria-expanded", "false"); }
  });
  document.addEventListener("click", (event) => {
    if (!form.contains(event.target)) list.hidden = true;
  });
})();
