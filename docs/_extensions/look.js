// What does not fit or read on the page that is open; look.py runs it. On paper all is on white.
const found = [], paper = arguments[0] === 'white';
const wide = document.documentElement.scrollWidth - window.innerWidth;
if (wide > 1) {
  const worst = [...document.querySelectorAll('body *')]
    .filter(e => e.getBoundingClientRect().right > window.innerWidth + 1 && e.checkVisibility())
    .slice(0, 3).map(e => e.tagName.toLowerCase() + '.' + e.className);
  found.push(`scrolls sideways by ${wide} px: ${worst.join(', ')}`);
}
const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
function rgba(colour) {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  const p = canvas.getImageData(0, 0, 1, 1).data;
  return [p[0], p[1], p[2], p[3] / 255];
}
function over(top, below) {
  return [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat([1]);
}
function behind(element) {
  const layers = [];
  if (paper) return [255, 255, 255, 1];
  for (let e = element; e; e = e.parentElement) {
    const colour = rgba(getComputedStyle(e).backgroundColor);
    if (colour[3] > 0) layers.push(colour);
    if (colour[3] === 1) break;
  }
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
}
function light(colour) {
  const [r, g, b] = colour.slice(0, 3).map(v => {
    v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
const seen = new Set();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
  if (!text || seen.has(element) || !element.checkVisibility({opacityProperty: true})) continue;
  if (['SCRIPT', 'STYLE', 'NOSCRIPT', 'TITLE'].includes(element.tagName)) continue;
  if (element.closest('svg, .visually-hidden, .sr-only, .skip-link, [aria-hidden=true], .headerlink, .copybtn')) continue;
  seen.add(element);
  const style = getComputedStyle(element), back = behind(element);
  const front = over(rgba(style.color), back);
  const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
  if (ratio < (large ? 3 : 4.5) - 0.01)
    found.push(`contrast ${ratio.toFixed(2)}: "${text.slice(0, 40)}" (${style.color} on ${back.slice(0, 3).map(Math.round)})`);
  if (size > 0 && size < (paper ? 9 : 11)) found.push(`text of ${size} px: "${text.slice(0, 40)}"`);
}
for (const image of document.querySelectorAll('img:not([alt])')) found.push(`no alt: ${image.src}`);
for (const control of document.querySelectorAll('button, a[href], input'))
  if (control.checkVisibility() && !control.textContent.trim() && !control.getAttribute('aria-label')
      && !control.title && !control.labels?.length && !control.querySelector('img[alt], svg[aria-label], svg title')
      && !control.placeholder && !control.getAttribute('aria-labelledby'))
    found.push(`no name: ${control.outerHTML.slice(0, 80)}`);
const heads = document.querySelectorAll('h1').length;
if (heads !== 1) found.push(`${heads} top headings`);
let level = 1;
for (const head of document.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
  if (!head.checkVisibility()) continue;
  const next = Number(head.tagName[1]);
  if (next > level + 1) found.push(`h${next} after h${level}: "${head.textContent.trim().slice(0, 40)}"`);
  level = next;
}
for (const box of document.querySelectorAll('main *')) {
  if (paper || box.scrollWidth <= box.clientWidth + 1 || !box.checkVisibility()) continue;
  if (!['auto', 'scroll'].includes(getComputedStyle(box).overflowX) || box.closest('[tabindex]')) continue;
  if (!box.querySelector('a[href], button')) found.push(`scrolls without a key: ${box.outerHTML.slice(0, 60)}`);
}
const mains = document.querySelectorAll('main, [role=main]').length;
if (mains !== 1) found.push(`${mains} main parts`);
if (!document.querySelector('.skip-link, #pst-skip-link')) found.push('no skip link');
if (!document.documentElement.lang) found.push('no language');
return [...new Set(found.map(line => line.replace(/\s+/g, ' ')))];
