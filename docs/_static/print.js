// Paper is white: a page that is read in the dark theme is printed in the light one.
(() => {
  const root = document.documentElement;
  let theme;
  window.addEventListener('beforeprint', () => { theme = root.dataset.theme; root.dataset.theme = 'light'; });
  window.addEventListener('afterprint', () => { root.dataset.theme = theme; });
})();
