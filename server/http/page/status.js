// The status page. It asks while somebody looks at it: not in a tab behind others, and not from the other page.
import { call } from './api.js';
import { colours, el, short, sized } from './dom.js';

const PERIOD_MS = 2000;
const KEPT = 60;

const sum = (metrics, fits = () => true) => (metrics ?? []).filter((one) => fits(one.labels)).reduce((total, one) => total + one.value, 0);

/** The quantile of what came between two readings of a histogram, in its unit; null where nothing did. */
export function quantile(before, after, share) {
  const total = after.reduce((n, one) => n + one.count, 0) - before.reduce((n, one) => n + one.count, 0);
  if (total <= 0) return null;
  const bounds = after[0].buckets.map(([bound]) => bound);
  const at = (list, index) => list.reduce((n, one) => n + (one.buckets[index]?.[1] ?? 0), 0);
  let [lower, below] = [0, 0];
  for (let index = 0; index < bounds.length; ++index) {
    const count = at(after, index) - at(before, index);
    if (count >= total * share) return lower + (bounds[index] - lower) * ((total * share - below) / Math.max(1, count - below));
    [lower, below] = [bounds[index], count];
  }
  return lower;
}

const milliseconds = (seconds) => (seconds === null ? '–' : `${short(seconds * 1000, 1)} ms`);
const bytes = (count) => (count >= 2 ** 30 ? `${(count / 2 ** 30).toFixed(1)} GiB` : `${(count / 2 ** 20).toFixed(0)} MiB`);

function duration(seconds) {
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const [size, unit] = units.find(([one]) => seconds >= one) ?? [1, 's'];
  return `${Math.floor(seconds / size)} ${unit}`;
}

export class StatusPage {
  constructor(root) {
    this.history = new Map();
    this.before = null;
    this.timer = null;
    this.shown = false;
    this.notice = el('p.notice.bad', { hidden: true, role: 'status' });
    this.tiles = new Map();
    this.grid = el('div.tiles');
    this.models = el('div.scroll-x', { tabindex: 0, role: 'region', 'aria-label': 'Models' });
    this.facts = el('p.facts');
    root.append(el('h1', {}, 'Status'), this.notice, this.grid, el('section.card', {}, el('h2', {}, 'Models'), this.models), this.facts);
    document.addEventListener('visibilitychange', () => this.#schedule());
  }

  show(is) {
    this.shown = is;
    this.#schedule();
  }

  // Nothing runs while nobody looks.
  #schedule() {
    clearTimeout(this.timer);
    this.timer = null;
    this.asking?.abort();
    if (this.shown && !document.hidden) this.#ask();
  }

  async #ask() {
    const asking = new AbortController();
    this.asking = asking;
    try {
      const [status, list] = await Promise.all([call('/v1/status', undefined, asking.signal), call('/v1/models', undefined, asking.signal)]);
      this.notice.hidden = true;
      this.#take({ at: performance.now(), metrics: status.metrics, models: list.models ?? [] });
    } catch (error) {
      if (error.name === 'AbortError') return;
      this.notice.textContent = this.before ? `${error.message} What stands here was read before.` : error.message;
      this.notice.hidden = false;
    }
    if (this.asking === asking && this.shown && !document.hidden) this.timer = setTimeout(() => this.#ask(), PERIOD_MS);
  }

  #take(now) {
    const before = this.before ?? now;
    const seconds = Math.max((now.at - before.at) / 1000, 0.001);
    const m = now.metrics;
    const one = (name) => sum(m[name]);
    const rate = (name, fits) => Math.max(0, sum(m[name], fits) - sum(before.metrics[name], fits)) / seconds;
    const durations = (metrics) => metrics.beamwright_request_duration_seconds ?? [];
    const p = (share) => quantile(durations(before.metrics), durations(m), share);
    const overall = (share) => (durations(m).length > 0 ? quantile([], durations(m), share) : null);
    const latency = p(0.99);
    const calls = one('beamwright_requests_total').toLocaleString('en');
    this.#tile('State', one('beamwright_draining') ? 'draining' : one('beamwright_ready') ? 'ready' : 'not ready', `up ${duration(Date.now() / 1000 - one('process_start_time_seconds'))}`);
    this.#tile('Calls a second', short(rate('beamwright_requests_total'), 1), `${short(rate('beamwright_requests_total', (labels) => labels.code !== 'OK'), 1)} failed, ${short(rate('beamwright_requests_rejected_total'), 1)} refused; ${calls} in all`, rate('beamwright_requests_total'));
    this.#tile('Latency p99', milliseconds(latency ?? overall(0.99)), latency === null ? `of all calls; median ${milliseconds(overall(0.5))}` : `median ${milliseconds(p(0.5))}`, latency === null ? 0 : latency * 1000);
    this.#tile('Rows', short(one('beamwright_beam_rows_active'), 0), `of ${one('beamwright_beam_rows_capacity').toLocaleString('en')}`, one('beamwright_beam_rows_active'));
    this.#tile('Queue', short(one('beamwright_requests_waiting'), 0), `${one('beamwright_requests_running')} running, oldest ${milliseconds(one('beamwright_queue_oldest_age_seconds'))}`, one('beamwright_requests_waiting'));
    this.#tile('Memory', bytes(one('process_resident_memory_bytes')), `of ${bytes(one('beamwright_memory_limit_bytes'))}`, one('process_resident_memory_bytes') / 2 ** 20);
    this.#tile('CPU', `${short(rate('process_cpu_seconds_total') * 100, 0)} %`, `${one('beamwright_inference_threads')} compute ${one('beamwright_inference_threads') === 1 ? 'thread' : 'threads'}`, rate('process_cpu_seconds_total') * 100);
    this.#fillModels(now, before, seconds);
    const build = m.beamwright_build_info?.[0]?.labels ?? {};
    this.facts.textContent = `Beamwright ${build.version ?? ''} · ${build.instruction_set ?? ''} · read every ${PERIOD_MS / 1000} s while this page is in sight; times are those of the last ${PERIOD_MS / 1000} s, or of all calls if there were none`;
    this.before = now;
  }

  #tile(name, value, more, sample) {
    if (!this.tiles.has(name)) {
      const tile = { value: el('p.value'), more: el('p.more'), canvas: sample === undefined ? null : el('canvas', { 'aria-hidden': 'true' }) };
      this.tiles.set(name, tile);
      this.grid.append(el('section.tile', { 'aria-label': name }, el('h2', {}, name), tile.value, tile.more, tile.canvas ? el('div.spark', {}, tile.canvas) : null));
    }
    const tile = this.tiles.get(name);
    tile.value.textContent = value;
    tile.more.textContent = more;
    if (tile.canvas) {
      const samples = this.history.get(name) ?? [];
      samples.push(sample);
      if (samples.length > KEPT) samples.shift();
      this.history.set(name, samples);
      drawLine(tile.canvas, samples);
    }
  }

  #fillModels(now, before, seconds) {
    const heads = ['model', 'version', 'state', 'calls a second', 'median', 'p99', 'step', 'rows a step', 'sources in all'];
    const rows = now.models.map((model) => {
      const of = (metrics, name) => (metrics[name] ?? []).filter(({ labels }) => labels.model === model.name && labels.version === model.version);
      // Where nothing came since the last reading: of all that came.
      const q = (name, share) => quantile(of(before.metrics, name), of(now.metrics, name), share) ??
        (of(now.metrics, name).length > 0 ? quantile([], of(now.metrics, name), share) : null);
      const calls = sum(of(now.metrics, 'beamwright_requests_total')) - sum(of(before.metrics, 'beamwright_requests_total'));
      const batch = q('beamwright_step_batch_rows', 0.5);
      const numbers = [short(calls / seconds, 1), milliseconds(q('beamwright_request_duration_seconds', 0.5)), milliseconds(q('beamwright_request_duration_seconds', 0.99)),
        milliseconds(q('beamwright_step_duration_seconds', 0.5)), batch === null ? '–' : short(batch, 0), sum(of(now.metrics, 'beamwright_sources_total')).toLocaleString('en')];
      return el('tr', {}, el('th', { scope: 'row' }, model.name), el('td', {}, [model.version, ...(model.labels ?? [])].join(', ')),
        el('td', {}, el(`span.state${model.ready ? '.ready' : ''}`, {}, model.ready ? 'ready' : 'not ready'), model.reason ? ` ${model.reason}` : ''), numbers.map((text) => el('td.number', {}, text)));
    });
    this.models.replaceChildren(el('table', {}, el('thead', {}, el('tr', {}, heads.map((text, index) => el(index > 2 ? 'th.number' : 'th', { scope: 'col' }, text)))), el('tbody', {}, rows)));
  }
}

function drawLine(canvas, samples) {
  const [width, height] = [canvas.parentElement.clientWidth, 36];
  if (width === 0) return;
  const context = sized(canvas, width, height);
  const c = colours('accent', 'accent-soft');
  const most = Math.max(...samples, 1e-9);
  const x = (index) => width - (samples.length - 1 - index) * (width / (KEPT - 1));
  const y = (value) => height - 2 - (value / most) * (height - 6);
  context.clearRect(0, 0, width, height);
  context.beginPath();
  samples.forEach((value, index) => context.lineTo(x(index), y(value)));
  context.strokeStyle = c.accent;
  context.lineWidth = 1.5;
  context.stroke();
  context.lineTo(width, height);
  context.lineTo(x(0), height);
  context.fillStyle = c['accent-soft'];
  context.fill();
}
