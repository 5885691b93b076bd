// Elements are made here and nowhere else. Text goes in as text: nothing that a server or a user says
// is ever read as HTML.

/** el('p.note', {id: 'x', onclick: f}, 'text', child): an element with its attributes and children. */
export function el(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split('.');
  const element = document.createElement(tag);
  if (classes.length > 0) element.className = classes.join(' ');
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const find = (id) => document.getElementById(id);

/** Says something to those who do not see the page. */
export function announce(text) {
  find('live').textContent = text;
}

/** A number in few digits: 0.0123, -12.3, 1,234. */
export function short(value, digits = 3) {
  if (value === -Infinity) return '\u2212∞';
  if (value === undefined || value === null || !Number.isFinite(value)) return '–';
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1);
  const places = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? Math.min(digits, 2) : digits;
  return value.toFixed(places).replace('-', '\u2212');
}

/** Colours of the style sheet, for canvases. */
export function colours(...names) {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Gives a canvas as many pixels as the screen has for its size; returns its context. */
export function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** A button that copies what `text()` gives. */
export function copyButton(label, text) {
  const button = el('button.quiet', { type: 'button', 'aria-label': label }, 'Copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = 'Copied';
      announce('Copied');
    } catch {
      // Browsers let pages copy over TLS or from this machine only.
      button.textContent = 'Select and copy by hand';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  });
  return button;
}
