// The beam as a tree: a column for each step, drawn on a canvas of what is in sight, so that ten thousand
// hypotheses cost no more than a screen full.
import { announce, colours, el, short, sized } from './dom.js';
import { pathOf, Search, textOf } from './search.js';

const COLUMN = 116;
const CHIP = 92;
const BEND = (COLUMN - CHIP) / 2;
const ROW = 24;
const TOP = 34;
const LEFT = 16;
const HEIGHT = 420;
const PLAY_MS = 550;
const MOST_ROWS = 60;  // of the table

const NAMES = ['ink', 'muted', 'faint', 'line', 'surface', 'accent', 'accent-soft', 'good', 'good-soft', 'warn'];

export class BeamView {
  constructor(search, { separator = ' ', name = 'Beam' } = {}) {
    this.search = search;
    this.separator = separator;
    this.step = search.steps.length - 1;
    this.selected = null;
    this.playing = null;
    this.colours = null;
    this.#build(name);
    this.dark = matchMedia('(prefers-color-scheme: dark)');
    this.onscheme = () => { this.colours = null; this.draw(); };
    this.dark.addEventListener('change', this.onscheme);
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.scroll);
    this.show(this.step, false);
  }

  destroy() {
    this.#pause();
    this.observer.disconnect();
    this.dark.removeEventListener('change', this.onscheme);
  }

  #build(name) {
    const last = this.search.steps.length - 1;
    this.canvas = el('canvas', { 'aria-hidden': 'true' });
    const rows = Math.max(...this.search.steps.map((nodes) => nodes.length));
    this.width = LEFT * 2 + this.search.steps.length * COLUMN - (COLUMN - CHIP);
    this.height = TOP + rows * ROW + 10;
    this.sizer = el('div.beam-sizer');
    this.sizer.style.width = `${this.width}px`;
    this.sizer.style.height = `${this.height}px`;
    this.sizer.append(this.canvas);
    this.scroll = el('div.beam-scroll', { tabindex: 0, role: 'application', 'aria-roledescription': 'beam tree',
      'aria-label': `${name}: arrow keys move between hypotheses`, onkeydown: (event) => this.#key(event),
      onclick: (event) => this.#click(event) }, this.sizer);
    this.scroll.style.height = `${Math.min(this.height + 14, HEIGHT)}px`;
    this.scroll.addEventListener('scroll', () => this.#soon(), { passive: true });
    this.slider = el('input', { type: 'range', min: 0, max: last, value: last, 'aria-label': 'Step',
      oninput: () => { this.#pause(); this.show(Number(this.slider.value)); } });
    this.play = el('button.quiet', { type: 'button', onclick: () => this.#toggle() }, 'Play');
    this.position = el('output.position');
    this.detail = el('div.beam-detail');
    this.table = el('div.scroll-x', { tabindex: 0, role: 'region', 'aria-label': `${name}: hypotheses of the step` });
    const step = (by, label, text) => el('button.quiet', { type: 'button', 'aria-label': label,
      onclick: () => { this.#pause(); this.show(this.step + by); } }, text);
    this.element = el('div.beam', {},
      el('div.beam-bar', {}, this.play, step(-1, 'Step back', '‹'), this.slider, step(1, 'Step on', '›'), this.position),
      this.scroll, legend(), this.detail,
      el('details.step-table', {}, el('summary', {}, 'This step as a table'), this.table));
  }

  show(step, scroll = true) {
    this.step = Math.max(0, Math.min(step, this.search.steps.length - 1));
    this.slider.value = this.step;
    const nodes = this.search.steps[this.step];
    const count = (fate) => nodes.filter((node) => node.fate === fate).length;
    const text = `Step ${this.step + 1} of ${this.search.steps.length}`;
    const dropped = count('dropped');
    this.position.textContent = `${text}: ${count('live')} live, ${count('finished')} finished` + (dropped ? `, ${dropped} dropped` : '');
    this.slider.setAttribute('aria-valuetext', this.position.textContent);
    if (scroll) this.#reveal(this.step, this.#answerAt(this.step)?.row ?? null);
    if (!this.selected || this.selected.step > this.step) this.select(this.#answerAt(this.step) ?? nodes[0], false);
    this.#fillTable(nodes);
    this.draw();
  }

  // The answer's hypothesis, as far as it has come by then.
  #answerAt(step) {
    for (let at = step; at >= 0; --at) {
      const node = this.search.steps[at].find((one) => one.best);
      if (node) return node;
    }
    return null;
  }

  select(node, say = true) {
    this.selected = node ?? null;
    this.detail.replaceChildren(...(node ? describe(node, this.separator) : []));
    if (node && say) {
      this.#reveal(node.step, node.row);
      announce(`${textOf(node, this.separator)}: sum ${short(node.sum)}, ${fateText(node)}`);
    }
    this.draw();
  }

  #reveal(step, row) {
    const box = this.scroll;
    const x = LEFT + step * COLUMN;
    if (x + CHIP > box.scrollLeft + box.clientWidth) box.scrollLeft = x + CHIP + LEFT - box.clientWidth;
    if (x < box.scrollLeft) box.scrollLeft = x - LEFT;
    if (row === null) return;
    const y = TOP + row * ROW;
    if (y + ROW > box.scrollTop + box.clientHeight) box.scrollTop = y + ROW - box.clientHeight + 8;
    if (y - TOP < box.scrollTop) box.scrollTop = y - TOP;
  }

  #toggle() {
    if (this.playing) {
      this.#pause();
      return;
    }
    if (this.step === this.search.steps.length - 1) this.show(0);
    this.play.textContent = 'Pause';
    this.playing = setInterval(() => {
      if (this.step === this.search.steps.length - 1 || !this.element.isConnected) this.#pause();
      else this.show(this.step + 1);
    }, PLAY_MS);
  }

  #pause() {
    clearInterval(this.playing);
    this.playing = null;
    this.play.textContent = 'Play';
  }

  #key(event) {
    const at = this.selected;
    const column = this.search.steps[at?.step ?? 0];
    const children = at && at.step < this.step ? this.search.steps[at.step + 1].filter((node) => node.parent === at) : [];
    const moves = {
      ArrowUp: () => column[at.row - 1], ArrowDown: () => column[at.row + 1],
      ArrowLeft: () => at.parent, ArrowRight: () => children.find((node) => node.best) ?? children[0],
      Home: () => pathOf(at)[0], End: () => this.search.steps[this.step][0],
    };
    if (event.key === ' ') this.#toggle();
    else if (moves[event.key] && at) {
      const next = moves[event.key]();
      if (next) this.select(next);
    } else return;
    event.preventDefault();
  }

  #click(event) {
    const box = this.scroll.getBoundingClientRect();
    const x = event.clientX - box.left + this.scroll.scrollLeft - LEFT;
    const y = event.clientY - box.top + this.scroll.scrollTop - TOP;
    const step = Math.floor(x / COLUMN);
    const node = step <= this.step && x - step * COLUMN <= CHIP ? this.search.steps[step]?.[Math.floor(y / ROW)] : null;
    if (node) this.select(node);
  }

  #soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    const [width, height] = [this.scroll.clientWidth, this.scroll.clientHeight];
    if (width === 0) return;
    this.colours ??= colours(...NAMES);
    const context = sized(this.canvas, width, height);
    const [left, top] = [this.scroll.scrollLeft, this.scroll.scrollTop];
    context.clearRect(0, 0, width, height);
    const first = Math.max(0, Math.floor((left - LEFT) / COLUMN) - 1);
    const last = Math.min(this.step, Math.floor((left + width) / COLUMN) + 1);
    const rows = [Math.max(0, Math.floor((top - TOP) / ROW) - 1), Math.ceil((top + height - TOP) / ROW)];
    const chosen = new Set(this.selected ? pathOf(this.selected) : []);
    context.translate(-left, -top);
    for (const strong of [false, true]) {
      for (let step = Math.max(1, first); step <= last; ++step) this.#drawEdges(context, step, rows, chosen, strong);
    }
    for (let step = first; step <= last; ++step) {
      const nodes = this.search.steps[step];
      for (let row = rows[0]; row < Math.min(rows[1], nodes.length); ++row) this.#drawChip(context, nodes[row], chosen);
    }
    this.#drawHeads(context, first, last, top);
  }

  #drawEdges(context, step, [from, to], chosen, strong) {
    const c = this.colours;
    for (const node of this.search.steps[step]) {
      const { parent } = node;
      const isStrong = node.best || chosen.has(node);
      if (!parent || isStrong !== strong || Math.max(node.row, parent.row) < from || Math.min(node.row, parent.row) > to) continue;
      const x = LEFT + parent.step * COLUMN + CHIP;
      const [y1, y2] = [centre(parent.row), centre(node.row)];
      context.beginPath();
      context.moveTo(x, y1);
      context.bezierCurveTo(x + BEND, y1, x + BEND, y2, x + COLUMN - CHIP, y2);
      context.strokeStyle = chosen.has(node) ? c.accent : node.best ? c.good : Search.holds(node, this.step) ? c.muted : c.line;
      context.lineWidth = isStrong ? 2 : 1;
      context.setLineDash(node.fate === 'dropped' ? [3, 3] : []);
      context.stroke();
    }
    context.setLineDash([]);
  }

  #drawChip(context, node, chosen) {
    const c = this.colours;
    const [x, y] = [LEFT + node.step * COLUMN, TOP + node.row * ROW + 2];
    const holds = Search.holds(node, this.step);
    context.beginPath();
    context.roundRect(x + 0.5, y + 0.5, CHIP - 1, ROW - 5, 5);
    context.fillStyle = chosen.has(node) ? c['accent-soft'] : node.fate === 'finished' ? c['good-soft'] : c.surface;
    context.fill();
    context.strokeStyle = chosen.has(node) ? c.accent : node.fate === 'finished' ? c.good : holds ? c.muted : c.line;
    context.lineWidth = node === this.selected ? 2 : 1;
    context.setLineDash(node.fate === 'dropped' ? [3, 3] : []);
    context.stroke();
    context.setLineDash([]);
    context.textBaseline = 'middle';
    context.fillStyle = holds || chosen.has(node) ? c.ink : c.faint;
    context.font = `${node.best ? 600 : 400} 12px ui-monospace, "DejaVu Sans Mono", monospace`;
    context.textAlign = 'left';
    context.fillText(fitted(node.label), x + 7, y + 10);
    context.font = '11px ui-monospace, "DejaVu Sans Mono", monospace';
    context.textAlign = 'right';
    context.fillStyle = holds ? c.muted : c.faint;
    context.fillText(short(node.logProb, 2), x + CHIP - 7, y + 10);
  }

  // They stay in sight when the tree is scrolled down.
  #drawHeads(context, first, last, top) {
    const c = this.colours;
    context.fillStyle = c.surface;
    context.fillRect(this.scroll.scrollLeft, top, this.scroll.clientWidth, TOP - 8);
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    context.textAlign = 'left';
    for (let step = first; step <= last; ++step) {
      context.fillStyle = step === this.step ? c.ink : c.muted;
      context.fillText(`step ${step + 1}`, LEFT + step * COLUMN + 2, top + 14);
    }
  }

  #fillTable(nodes) {
    const rows = nodes.slice(0, MOST_ROWS).map((node, index) => el('tr', {},
      el('td.number', {}, String(index + 1)), el('td.mono', {}, textOf(node, this.separator)),
      el('td.number', {}, short(node.logProb)), el('td.number', {}, short(node.sum)), el('td', {}, fateText(node))));
    this.table.replaceChildren(el('table', {}, el('thead', {}, el('tr', {}, ['#', 'hypothesis', 'log-prob', 'sum', 'what became of it']
      .map((text) => el('th', { scope: 'col' }, text)))), el('tbody', {}, rows)),
      nodes.length > MOST_ROWS ? el('p.help', {}, `and ${nodes.length - MOST_ROWS} more`) : '',
      nodes.omitted ? el('p.help', {}, `${nodes.omitted} more not listed: they rank below`) : '');
  }
}

const centre = (row) => TOP + row * ROW + 2 + (ROW - 4) / 2;
const fitted = (label) => ([...label].length > 6 ? `${[...label].slice(0, 5).join('')}…` : label);

function fateText(node) {
  if (node.fate === 'dropped') return node.reason ? `dropped: ${node.reason}` : 'dropped';
  if (node.fate === 'finished') return node.reason ? `finished; ${node.reason}` : 'finished with an end token';
  return node.reason || 'went on';
}

function describe(node, separator) {
  const pairs = [['hypothesis', textOf(node, separator)], ['token', `${node.label} (${node.token})`],
    ['log-prob', short(node.logProb)], ['sum', short(node.sum)],
    ...(node.parts ?? []).map(([name, value]) => [name, typeof value === 'string' ? value : short(value)]), ['then', fateText(node)]];
  return [el('dl', {}, pairs.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))))];
}

function legend() {
  const entry = (kind, text) => el('li', {}, el(`span.key.${kind}`), text);
  return el('ul.legend', { 'aria-label': 'Legend' }, entry('live', 'live'), entry('gone', 'given up by this step'),
    entry('finished', 'finished'), entry('dropped', 'dropped'), entry('best', 'the answer'), entry('chosen', 'selected'));
}
