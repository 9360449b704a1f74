() => {
  const banner = document.querySelector(".banner");
  if (!banner || !banner.innerText.includes("PRIVATE")) return false;
  const box = banner.getBoundingClientRect();
  if (box.top < 0 || box.bottom > innerHeight || box.height < 15) return false;
  const there = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  return banner.contains(there);
}
