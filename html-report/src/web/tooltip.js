const tooltip = byId("tooltip");

/** Shows `text` beside an element while the pointer or the focus is on it. */
function showTooltip(element, text) {
  tooltip.textContent = text;
  tooltip.hidden = false;
  const box = element.getBoundingClientRect(), own = tooltip.getBoundingClientRect();
  const clamp = (value, most) => Math.max(4, Math.min(value, most - 4));
  const below = box.bottom + 6 + own.height < innerHeight;
  const top = below ? box.bottom + 6 : box.top - own.height - 6;
  tooltip.style.left = `${clamp(box.left, innerWidth - own.width)}px`;
  tooltip.style.top = `${clamp(top, innerHeight - own.height)}px`;
}

function hideTooltip() {
  tooltip.hidden = true;
}

/** Gives the elements inside `container` tooltips; `text` returns the one of an element, or nothing. */
function tooltips(container, text) {
  const show = (event) => {
    const found = event.target instanceof Element ? text(event.target) : null;
    if (found) showTooltip(event.target, found);
    else hideTooltip();
  };
  container.addEventListener("pointerover", show);
  container.addEventListener("focusin", show);
  container.addEventListener("pointerleave", hideTooltip);
  container.addEventListener("focusout", hideTooltip);
}
window.addEventListener("scroll", hideTooltip, { passive: true });
