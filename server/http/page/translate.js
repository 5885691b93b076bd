// The translate page: a text on the left, its translation on the right, and other translations to choose from.
import { call } from './api.js';
import { announce, copyButton, el, find } from './dom.js';

const ALTERNATIVES = 3;
const PAUSE_MS = 500; // between the last key and a request
const AUTO = 'auto';

/** Languages with something to translate to. */
async function sources() {
  return (await call('/languages')).filter(({ code, targets }) => targets.some((target) => target !== code));
}

/** Whether a model of the server translates. */
export async function canTranslate() {
  return (await sources()).length > 0;
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
    this.result = el('div.translation', { id: 'translation', tabindex: 0, role: 'region', 'aria-label': 'Translation' });
    this.found = el('p.help', { role: 'status' });
    this.others = el('ul.others');
    this.more = el('section', { 'aria-label': 'Other translations', hidden: true }, el('h3', {}, 'Other translations'), this.others);
    root.append(el('div.panes', {},
      el('form.card', { 'aria-label': 'Text', onsubmit: (event) => event.preventDefault() },
        el('div.field', {}, el('label', { for: 'translate-source' }, 'From'), this.source),
        el('div.field', {}, el('label', { for: 'translate-text' }, 'Text'), this.text), this.found),
      el('section.card', { 'aria-label': 'Translated' },
        el('div.field', {}, el('label', { for: 'translate-target' }, 'To'), this.target),
        this.fault, this.result, this.more, copyButton('Copy the translation', () => this.result.textContent))));
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

  #show(text, others, language) {
    this.result.textContent = text;
    this.found.textContent = language ? `The text is in ${this.names.get(language) ?? language}.` : '';
    this.more.hidden = others.length === 0;
    this.others.replaceChildren(...others.map((other) => {
      const button = el('button.quiet', { type: 'button' }, other);
      button.addEventListener('click', () => {
        // The two change places.
        [button.textContent, this.result.textContent] = [this.result.textContent, button.textContent];
        announce('Translation chosen');
      });
      return el('li', {}, button);
    }));
  }
}
