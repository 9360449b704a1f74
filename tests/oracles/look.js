([leastGraphic, leastText]) => {
  const found = new Set();
  const channels = (text) => text.match(/[0-9.]+/g).map(Number);
  const luminance = (c) => {
    const [r, g, b] = c.slice(0, 3).map((x) => x / 255)
      .map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const paper = channels(getComputedStyle(document.body).backgroundColor);
  for (const mark of document.querySelectorAll(".plot .line, .plot .dot")) {
    const style = getComputedStyle(mark);
    const drawn = mark.classList.contains("line") || parseFloat(style.borderTopWidth)
      ? style.borderTopColor : style.backgroundColor;
    const ratio = contrast(channels(drawn), paper);
    if (ratio < leastGraphic) found.add(`contrast ${ratio.toFixed(2)} of a ${mark.className}`);
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !element.checkVisibility() || element.tagName === "SUP") continue;
    const size = parseFloat(getComputedStyle(element).fontSize);
    if (size < leastText) found.add(`"${text.slice(0, 30)}" is ${size.toFixed(1)} pixels high`);
  }
  return [...found];
}
