// The listen page: sound from a file or the microphone, and the words as they settle.
import { call, listenerPorts, modelPath } from './api.js';
import { announce, el, short } from './dom.js';
import { Microphone, SoundStream, samplesOf } from './stream.js';

const N_BEST = 4;

/** The models that hear sound: {name, version, rate}. */
async function modelsWithSound() {
  const { models = [] } = await call('/v1/models');
  const described = await Promise.all(models.filter(({ ready }) => ready).map(async ({ name, version }) => {
    const sound = (await call(modelPath(name, version)).catch(() => null))?.config?.sound;
    return sound ? { name, version, rate: sound.sample_rate || 16000 } : null;
  }));
  return described.filter(Boolean);
}

/** The length of what all texts begin with, whole words of it. */
function sharedWords(texts) {
  if (texts.length < 2) return 0;
  const [first, ...others] = texts;
  let length = 0;
  while (length < first.length && others.every((text) => text[length] === first[length])) ++length;
  // Up to the last gap, unless every text ends or has a gap there.
  const isBetween = (text) => length === text.length || /\s/.test(text[length]);
  return texts.every(isBetween) ? length : Math.max(0, first.lastIndexOf(' ', length - 1) + 1);
}

/** Whether the server has what the page needs: a listener of streams and a model that hears sound. */
export async function canListen() {
  return (await listenerPorts()).webSocket > 0 && (await modelsWithSound()).length > 0;
}

export class ListenPage {
  static async start(root) {
    const port = (await listenerPorts()).webSocket;
    const models = port ? await modelsWithSound() : [];
    const none = !port ? 'The server takes no streams of sound: it was started without --websocket-address.' :
      models.length === 0 ? 'No model of this server hears sound.' : '';
    root.replaceChildren(el('h1.visually-hidden', {}, 'Listen'));
    if (none) root.append(el('p.notice', { role: 'status' }, none));
    return none ? null : new ListenPage(root, port, models);
  }

  constructor(root, port, models) {
    this.port = port;
    this.models = models;
    this.model = el('select', { id: 'listen-model' }, models.map(({ name, version }, index) => el('option', { value: index }, `${name} · ${version}`)));
    this.file = el('input', { id: 'listen-file', type: 'file', accept: 'audio/*', onchange: () => this.#hearFile(this.file.files[0]) });
    this.button = el('button.primary', { type: 'button', onclick: () => (this.microphone ? this.#stop() : this.#hearMicrophone()) }, 'Listen');
    this.state = el('p.help', { role: 'status' });
    this.fault = el('div.notice.bad', { role: 'alert', hidden: true });
    this.segments = el('ol.heard');
    this.now = el('p.now', { 'aria-label': 'What is being said' });
    this.beam = el('tbody');
    this.alive = el('section.card.alive', { 'aria-label': 'The beam now', hidden: true }, el('h2', {}, 'The beam now'),
      el('table', {}, el('thead.visually-hidden', {}, el('tr', {}, ['hypothesis', 'share', 'score'].map((text) => el('th', { scope: 'col' }, text)))), this.beam),
      el('p.help', {}, 'What is alive at this moment, best first, with its share among them; in grey what all of them begin with.'));
    const dropped = (event) => {
      event.preventDefault();
      this.#hearFile(event.dataTransfer.files[0]);
    };
    root.append(el('div.columns', { ondragover: (event) => event.preventDefault(), ondrop: dropped },
      el('form.request', { 'aria-label': 'Sound', onsubmit: (event) => event.preventDefault() },
        el('div.field', {}, el('label', { for: 'listen-model' }, 'Model'), this.model),
        el('div.field', {}, el('label', { for: 'listen-file' }, 'A recording'), this.file,
          el('p.help', {}, 'Or drop a file on this page.')),
        el('div.actions', {}, this.button), this.state),
      el('div.results', {}, this.fault, el('section.card', { 'aria-label': 'Heard' }, el('h2', {}, 'Heard'), this.segments, this.now,
        el('p.help', {}, 'Words in full ink stay as they are; those in grey may change.')), this.alive)));
  }

  get chosen() { return this.models[Number(this.model.value)]; }

  async #hearFile(file) {
    if (!file) return;
    this.#stop();
    try {
      const samples = await samplesOf(file, this.chosen.rate);
      const stream = this.#begin(`${file.name}, ${short(samples.length / this.chosen.rate, 1)} s`);
      if (await stream.opened) await stream.sendAll(samples, this.chosen.rate);
    } catch (error) {
      this.#fail(error instanceof DOMException ? `${file.name} is not sound that this browser can decode.` : error.message);
    }
  }

  async #hearMicrophone() {
    try {
      const stream = this.#begin('Listening…');
      if (!await stream.opened) return;
      let seconds = 0;
      this.microphone = await Microphone.open(this.chosen.rate, (piece) => {
        stream.send(piece);
        seconds += piece.length / this.chosen.rate;
        if (this.microphone) this.state.textContent = `Listening… ${seconds.toFixed(1)} s`;
      });
      this.button.textContent = 'Stop';
    } catch (error) {
      this.stream?.finish();
      this.#fail(`The microphone cannot be used: ${error.message}`);
    }
  }

  #stop() {
    this.microphone?.stop();
    this.microphone = null;
    this.button.textContent = 'Listen';
    this.stream?.finish();
  }

  #begin(state) {
    const { name, version } = this.chosen;
    this.fault.hidden = true;
    this.segments.replaceChildren();
    this.now.replaceChildren();
    this.state.textContent = state;
    const stream = new SoundStream(this.port, { model: name, version, provisional: 'n_best', options: JSON.stringify({ n_best: N_BEST }) }, {
      onanswer: (answer) => { if (this.stream === stream) this.#show(answer); },
      onend: (error) => { if (this.stream === stream) this.#end(error); },
    });
    this.stream = stream;
    return stream;
  }

  #end(error) {
    this.stream = null;
    this.alive.hidden = true;
    this.#stop();
    if (error) this.#fail(error);
    else this.state.textContent = 'The answer is complete.';
  }

  #fail(text) {
    this.state.textContent = '';
    this.fault.textContent = text;
    this.fault.hidden = false;
  }

  #show(answer) {
    if (!answer.is_final) {
      const rest = answer.text.startsWith(answer.stable) ? answer.text.slice(answer.stable.length) : answer.text;
      this.now.replaceChildren(el('span.stable', {}, answer.stable), el('span.settling', {}, rest));
      this.#showBeam(answer.hypotheses ?? [{ text: answer.text }]);
      return;
    }
    this.now.replaceChildren();
    this.#showBeam([]);
    // The end of a source whose last segment is here already.
    if (answer.is_eof && answer.segment > 0 && !answer.text) return;
    this.segments.append(this.#segment(answer));
    announce(answer.text);
  }

  /** The hypotheses that are alive, each with its share of their probability; rows for all that there may be. */
  #showBeam(hypotheses) {
    if (hypotheses.length > 0) this.alive.hidden = false;
    const best = hypotheses[0]?.score ?? 0;
    const weights = hypotheses.map(({ score = best }) => Math.exp(score - best));  // one alone comes without
    const sum = weights.reduce((total, weight) => total + weight, 0);
    const shared = sharedWords(hypotheses.map(({ text }) => text));
    this.beam.replaceChildren(...Array.from({ length: N_BEST }, (_, rank) => {
      const one = hypotheses[rank];
      if (!one) return el('tr', {}, el('td.mono', {}, '\u00a0'), el('td'), el('td'));
      const share = weights[rank] / sum;
      const bar = el('span.bar', { 'aria-hidden': 'true' });
      bar.style.setProperty('--share', share.toFixed(3));
      return el('tr', {}, el('td.mono', {}, el('span.shared', {}, one.text.slice(0, shared)), one.text.slice(shared) || (one.text ? '' : '(empty)')),
        el('td', {}, el('div.share', {}, bar, el('span', {}, `${(100 * share).toFixed(0)} %`))), el('td.number', { title: one.score }, short(one.score)));
    }));
  }

  /** A text, and of each of its words when it was said; the surer the model is of it, the darker it is. */
  #said(text, start, words) {
    if (!text) return '(silence)';
    if (words.map(({ word }) => word).join(' ') !== text) return text;
    return words.flatMap(({ word, start: begin, end, confidence = 1 }, index) => {
      const one = el('span.word', { title: `${short(start + begin, 2)}\u2013${short(start + end, 2)} s, ${Math.round(100 * confidence)} %` }, word);
      one.style.setProperty('--confidence', confidence);
      return index === 0 ? [one] : [' ', one];
    });
  }

  #segment({ text, start_time, words = [], hypotheses = [] }) {
    const others = hypotheses.slice(1);
    return el('li', {}, el('span.when', {}, `${short(start_time, 1)} s`), el('span.said', {}, this.#said(text, start_time, words)),
      others.length ? el('details', {}, el('summary', {}, `${others.length} more of the beam`),
        el('table', {}, el('tbody', {}, hypotheses.map((one) => el('tr', {}, el('td.number', { title: one.score }, short(one.score)), el('td.mono', {}, one.text || '(empty)')))))) : null);
  }
}
