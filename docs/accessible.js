// What the theme leaves to be done for keyboards and screen readers.
function mend() {
  // Every code block has a toolbar that claims to be a landmark of the page.
  for (const bar of document.querySelectorAll("nav.md-code__nav")) bar.setAttribute("role", "presentation");
  // Hidden switches are not to be reached by the tab key.
  for (const option of document.querySelectorAll("input.md-option[aria-hidden=true]")) option.tabIndex = -1;
  // Whatever scrolls sideways can be scrolled by the arrow keys.
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
  }
}
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", mend);
mend();
