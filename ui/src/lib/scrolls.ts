/** An area that scrolls can be reached by keyboard as long as it is larger than its place. */
export function scrolls(node: HTMLElement): { destroy: () => void } {
  const update = () => {
    const needed = node.scrollHeight > node.clientHeight + 1 || node.scrollWidth > node.clientWidth + 1;
    if (!needed) {
      node.removeAttribute("tabindex");
      return;
    }
    node.tabIndex = 0;
    if (!node.hasAttribute("role")) node.setAttribute("role", "group");
    if (!node.hasAttribute("aria-label")) node.setAttribute("aria-label", "Scrolls");
  };
  const sizes = new ResizeObserver(update);
  const contents = new MutationObserver(() => requestAnimationFrame(update));
  sizes.observe(node);
  contents.observe(node, { childList: true, subtree: true });
  return { destroy: () => { sizes.disconnect(); contents.disconnect(); } };
}
