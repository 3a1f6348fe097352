// Set the stored theme before the first paint: a classic script in the head of a page.
try {
  const theme = localStorage.getItem("clob-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked: the theme of the system applies.
}
