() => {
  const usable = "a[href], button, input, select, summary, [tabindex='0']";
  const all = [...document.querySelectorAll(usable)].filter((element) => element.checkVisibility());
  window.reached = [];
  document.addEventListener("focusin", ({ target }) => {
    const style = getComputedStyle(target);
    const box = target.getBoundingClientRect();
    window.reached.push({
      place: all.indexOf(target),
      what: (target.textContent || target.className.toString()).trim().slice(0, 30),
      seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
        && box.right > 0 && box.left < innerWidth,
    });
  });
  return all.length;
}
