// The translate page: a text on the left, its translation on the right, other translations to choose from, and behind each
// word the beam that found its sentence.
import { call, modelPath } from './api.js';
import { BeamView } from './beam.js';
import { searchOf } from './decode.js';
import { announce, copyButton, el, find } from './dom.js';

const ALTERNATIVES = 3;
const PAUSE_MS = 500; // between the last key and a request
const AUTO = 'auto';
const TRACE = 8; // dropped candidates a step

function sentencesOf(text, language) {
  return [...new Intl.Segmenter(language, { granularity: 'sentence' }).segment(text)].map(({ segment }) => segment);
}

/** Languages with something to translate to. */
async function sources() {
  return (await call('/languages')).filter(({ code, targets }) => targets.some((target) => target !== code));
}

/** Whether a model of the server translates. */
export async function canTranslate() {
  return (await sources()).length > 0;
}

/** The step of each word's first token. */
function stepsOfWords({ hypotheses, trace }) {
  const texts = (hypotheses[0]?.tokens ?? []).map((token) => trace?.token_texts?.[token] ?? '');
  const hasMarks = texts.some((text) => text.startsWith('\u2581'));
  return texts.map((text, step) => (!hasMarks || text.startsWith('\u2581') ? step : -1)).filter((step) => step >= 0);
}

export class TranslatePage {
  static async start(root) {
    const languages = await call('/languages');
    root.replaceChildren(el('h1.visually-hidden', {}, 'Translate'));
    if (!languages.some(({ code, targets }) => targets.some((target) => target !== code))) {
      root.append(el('p.notice', { role: 'status' }, 'No model of this server translates.'));
      return null;
    }
    return new TranslatePage(root, languages);
  }

  constructor(root, languages) {
    this.names = new Map(languages.map(({ code, name }) => [code, name]));
    this.targets = new Map(languages.map(({ code, targets }) => [code, targets.filter((target) => target !== code)]));
    const from = [...this.targets].filter(([, targets]) => targets.length > 0).map(([code]) => code);
    this.source = el('select', { id: 'translate-source', onchange: () => this.#offerTargets() },
      from.map((code) => this.#option(code)), el('option', { value: AUTO }, 'Find out'));
    this.target = el('select', { id: 'translate-target', onchange: () => this.#translate() });
    this.text = el('textarea', { id: 'translate-text', rows: 10, maxlength: 100000, autofocus: true, oninput: () => this.#wait() });
    this.fault = el('div.notice.bad', { role: 'alert', hidden: true });
    this.result = el('div.translation', { id: 'translation', tabindex: 0, role: 'region', 'aria-label': 'Translation',
      onclick: ({ target }) => target.dataset.word && this.#showBeam(target.dataset) });
    this.beam = el('section.card', { 'aria-label': 'Beam', hidden: true });
    this.found = el('p.help', { role: 'status' });
    this.others = el('ul.others');
    this.more = el('section', { 'aria-label': 'Other translations', hidden: true }, el('h3', {}, 'Other translations'), this.others);
    root.append(el('div.panes', {},
      el('form.card', { 'aria-label': 'Text', onsubmit: (event) => event.preventDefault() },
        el('div.field', {}, el('label', { for: 'translate-source' }, 'From'), this.source),
        el('div.field', {}, el('label', { for: 'translate-text' }, 'Text'), this.text), this.found),
      el('section.card', { 'aria-label': 'Translated' },
        el('div.field', {}, el('label', { for: 'translate-target' }, 'To'), this.target),
        this.fault, this.result, el('p.help', {}, 'Click a word to see the beam behind it.'), this.more,
        copyButton('Copy the translation', () => this.result.textContent))), this.beam);
    this.#offerTargets();
  }

  #option(code) { return el('option', { value: code }, this.names.get(code) ?? code); }

  #offerTargets() {
    const before = this.target.value;
    const codes = this.source.value === AUTO ? [...new Set([...this.targets.values()].flat())].sort() : this.targets.get(this.source.value);
    this.target.replaceChildren(...codes.map((code) => this.#option(code)));
    if (codes.includes(before)) this.target.value = before;
    this.#translate();
  }

  #wait() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#translate(), PAUSE_MS);
  }

  async #translate() {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.fault.hidden = true;
    if (!this.text.value.trim()) {
      this.#show('', []);
      return;
    }
    this.abort = new AbortController();
    try {
      const answer = await call('/translate', {
        q: this.text.value, source: this.source.value, target: this.target.value, format: 'text', alternatives: ALTERNATIVES,
      }, this.abort.signal);
      this.#show(answer.translatedText, answer.alternatives ?? [], answer.detectedLanguage?.language);
    } catch (error) {
      if (error.name === 'AbortError') return;
      this.#show('', []);
      this.fault.textContent = error.message;
      this.fault.hidden = false;
      if (error.status === 403) find('access').open = true;
    }
  }

  /** Each word knows its line, its sentence there, and its place in the sentence. */
  #write(text) {
    this.result.replaceChildren(...text.split('\n').flatMap((line, lineNumber) => [
      ...(lineNumber > 0 ? ['\n'] : []),
      ...sentencesOf(line, this.target.value).flatMap((sentence, number) => {
        let word = 0;
        return sentence.split(/(\s+)/).filter(Boolean).map((part) => (part.trim()
          ? el('span.word', { 'data-line': lineNumber, 'data-sentence': number, 'data-word': word++ }, part) : part));
      })]));
  }

  /** The model that translates directly, as the server describes it; undefined: there is none. */
  async #model() {
    const wanted = `${this.language ?? this.source.value} ${this.target.value}`;
    this.models ??= call('/v1/models').then(({ models }) => Promise.all([...new Set(models.map(({ name }) => name))]
      .map((name) => call(modelPath(name)).then(({ config }) => ({ name, config }), () => null))));
    return (await this.models).find((model) => model?.config?.translation &&
      `${model.config.translation.source_language} ${model.config.translation.target_language}` === wanted);
  }

  async #showBeam({ line, sentence, word }) {
    this.view?.destroy();
    this.view = null;
    this.beam.hidden = false;
    try {
      const model = await this.#model();
      if (!model) throw new Error('Two models translate one after the other: there is no one beam.');
      const lines = [this.text.value, this.result.textContent].map((text) => text.split('\n')[line] ?? '');
      const from = sentencesOf(lines[0], this.language ?? this.source.value);
      const text = from.length === sentencesOf(lines[1], this.target.value).length ? from[sentence] : lines[0];
      const { config } = model;
      const beam_size = Math.max(ALTERNATIVES + 1, config.default_options?.beam_size ?? 1);
      const { results } = await call(`${modelPath(model.name)}:decode`,
        { sources: [{ text: text.trim() }], options: { beam_size, n_best: ALTERNATIVES + 1, trace: TRACE } });
      const { decoded } = results[0];
      this.view = new BeamView(searchOf({ decoded, config }), { name: 'Beam' });
      this.beam.replaceChildren(el('h2', {}, 'Beam', el('span.source', {}, text.trim())), this.view.element);
      const step = stepsOfWords(decoded)[word];
      if (step !== undefined) this.view.show(step);
    } catch (error) {
      this.beam.replaceChildren(el('p.notice', { role: 'status' }, error.message));
    }
  }

  #show(text, others, language) {
    this.language = language;
    this.view?.destroy();
    this.view = null;
    this.beam.hidden = true;
    this.#write(text);
    this.found.textContent = language ? `The text is in ${this.names.get(language) ?? language}.` : '';
    this.more.hidden = others.length === 0;
    this.others.replaceChildren(...others.map((other) => {
      const button = el('button.quiet', { type: 'button' }, other);
      button.addEventListener('click', () => {
        // The two change places.
        const chosen = button.textContent;
        button.textContent = this.result.textContent;
        this.#write(chosen);
        announce('Translation chosen');
      });
      return el('li', {}, button);
    }));
  }
}
