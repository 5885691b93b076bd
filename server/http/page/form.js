// The form of a request, or of two that are compared.
import { el } from './dom.js';
import { readFeatures, readPicture } from './npy.js';
import { OptionPanel } from './options.js';
import { newRequest } from './request.js';

// Answers that a new request asks for.
const SUGGESTED = 5;
const KINDS = { text: 'Text', ids: 'Token ids', picture: 'Picture from a file', features: 'Features from a file' };

export class RequestForm {
  /** `calls`: describe(request), of a model; onrun(); onchange(). */
  constructor(schemas, models, calls) {
    this.calls = calls;
    this.models = models;
    this.requests = [{ ...newRequest(), model: models[0]?.name ?? '' }];
    this.index = 0;
    this.options = new OptionPanel(schemas, () => this.#take());
    this.#build();
    this.#fill();
  }

  get current() { return this.requests[this.index]; }

  #build() {
    const take = () => this.#take();
    this.model = el('select', { id: 'model', onchange: take });
    this.kind = el('select', { id: 'kind', onchange: take }, Object.entries(KINDS).map(([value, text]) => el('option', { value }, text)));
    this.source = el('textarea', { id: 'source', rows: 3, spellcheck: 'false', 'aria-describedby': 'source-fault', oninput: take });
    this.pictureName = el('p.help');
    this.pictureFile = el('input', { id: 'picture', type: 'file', accept: 'image/png,image/jpeg', 'aria-label': 'Picture',
      onchange: () => this.#readPicture(this.pictureFile.files[0]) });
    this.picture = el('div.picture', { hidden: true, ondragover: (event) => event.preventDefault(),
      ondrop: (event) => { event.preventDefault(); this.#readPicture(event.dataTransfer.files[0]); } },
      this.pictureFile, this.pictureName);
    this.file = el('input', { id: 'file', type: 'file', 'aria-label': 'File of features', onchange: () => this.#read() });
    this.dtype = el('select', { id: 'dtype', 'aria-label': 'Type of raw values' }, ['f32', 'f16', 'f64', 'i32', 'i64', 'u8'].map((value) => el('option', {}, value)));
    this.shape = el('input', { id: 'shape', type: 'text', placeholder: 'shape of raw values: 120, 40', 'aria-label': 'Shape of raw values', onchange: () => this.#read() });
    this.dtype.addEventListener('change', () => this.#read());
    this.features = el('div.features', { hidden: true }, this.file, el('div.pair', {}, this.dtype, this.shape), el('p.help', {}, '.npy says type and shape itself; raw values are little-endian.'));
    this.fault = el('p.fault', { id: 'source-fault', hidden: true });
    this.tabs = el('div.tabs', { role: 'group', 'aria-label': 'Requests', hidden: true });
    this.compare = el('button.quiet', { type: 'button', onclick: () => this.#compare() }, 'Compare with another');
    this.button = el('button.primary', { type: 'submit' }, 'Decode');
    this.element = el('form.request', { 'aria-label': 'Request', onsubmit: (event) => { event.preventDefault(); this.calls.onrun(); },
      onkeydown: (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) this.calls.onrun(); } },
      this.tabs, field('Model', 'model', this.model), field('Source', 'kind', this.kind),
      el('div.field', {}, el('label.visually-hidden', { for: 'source' }, 'Source text'), this.source, this.picture, this.features, this.fault),
      el('div.actions', {}, this.button, this.compare), el('h2', {}, 'Options'), this.options.element);
    this.#fillModels();
  }

  #fillModels() {
    const value = ({ name, version }) => JSON.stringify([name, version]);
    this.model.replaceChildren(...this.models.map((model) => el('option', { value: value(model), disabled: !model.ready },
      `${model.name} · ${model.version}${model.labels?.length ? ` (${model.labels.join(', ')})` : ''}${model.ready ? '' : ' – not ready'}${model.not_in_memory ? ' – the first call loads it' : ''}`)));
  }

  /** Takes what stands in the controls. */
  #take() {
    const [model, version] = JSON.parse(this.model.value || '["",""]');
    const moved = model !== this.current.model || (this.current.version !== '' && version !== this.current.version);
    // The newest version is what holds without one.
    const newest = this.models.find((one) => one.name === model)?.version;
    Object.assign(this.current, { model, version: version === newest ? '' : version, kind: this.kind.value,
      source: ['features', 'picture'].includes(this.kind.value) ? (this.current[this.kind.value]?.name ?? '') : this.source.value, options: this.options.get() });
    this.#showKind();
    if (moved) this.#describe();
    this.calls.onchange();
  }

  #showKind() {
    const { kind } = this.current;
    this.features.hidden = kind !== 'features';
    this.picture.hidden = kind !== 'picture';
    this.pictureName.textContent = this.current.picture?.name ?? 'PNG or JPEG; drop a file here, or choose one.';
    this.source.hidden = kind === 'features' || kind === 'picture';
    this.source.placeholder = this.current.kind === 'ids' ? '12 7 43' : 'What to decode (Ctrl+Enter decodes)';
  }

  async #describe() {
    const request = this.current;
    const description = await this.calls.describe(request);
    if (this.current !== request) return;
    this.options.setDefaults(description?.config?.default_options);
    this.options.setModel(description?.config);
    this.#offerKinds(description);
    this.#suggest(request, description?.config);
  }

  /** Leaves out the kinds of source that the model does not take. */
  #offerKinds(description) {
    const dtype = description?.encoder_input?.dtype;
    const takes = { text: !dtype || (/^[iu]/.test(dtype) && Boolean(description.config.source?.vocabulary)),
      ids: !dtype || /^[iu]/.test(dtype), picture: Boolean(description?.config?.picture), features: !dtype || /^(f|bf)/.test(dtype) };
    for (const option of this.kind.options) option.hidden = !takes[option.value] && option.value !== this.current.kind;
    const [first] = Object.keys(takes).filter((kind) => takes[kind]);
    if (takes[this.current.kind] || this.current.source !== '' || !first) return;
    this.kind.value = first;
    this.#take();
  }

  /** Of a new request, not one of a link: several answers, from a beam that has as many. */
  #suggest(request, config) {
    if (!request.isNew || !config) return;
    request.isNew = false;
    const beam = Math.min(SUGGESTED, config.limits?.max_beam_size || SUGGESTED);
    const fallbacks = config.default_options ?? {};
    if (!request.options.n_best && !(fallbacks.n_best > 1)) request.options.n_best = String(beam);
    if (!request.options.beam_size && !(fallbacks.beam_size >= beam)) request.options.beam_size = String(beam);
    this.options.set(request.options);
    this.calls.onchange();
  }

  async #read() {
    const [file] = this.file.files;
    if (!file) return;
    try {
      this.current.features = await readFeatures(file, this.dtype.value, this.shape.value);
      this.#sourceFault('');
    } catch (error) {
      this.current.features = null;
      this.#sourceFault(`${file.name} ${error.message}`);
    }
    this.#take();
  }

  async #readPicture(file) {
    if (!file) return;
    this.current.picture = await readPicture(file);
    this.#sourceFault('');
    this.#take();
  }

  #fill() {
    const request = this.current;
    const known = this.models.filter((model) => model.name === request.model);
    const model = known.find((one) => one.version === request.version || one.labels?.includes(request.version)) ?? known[0];
    if (model) this.model.value = JSON.stringify([model.name, model.version]);
    this.kind.value = request.kind;
    this.source.value = ['features', 'picture'].includes(request.kind) ? '' : request.source;
    this.options.set(request.options);
    this.#showKind();
    this.#describe();
    this.#fillTabs();
  }

  #fillTabs() {
    const several = this.requests.length > 1;
    this.tabs.hidden = !several;
    this.compare.textContent = several ? 'Compare no more' : 'Compare with another';
    this.tabs.replaceChildren(...this.requests.map((_, index) => el('button', { type: 'button', 'aria-pressed': String(index === this.index),
      onclick: () => this.select(index) }, `Request ${'AB'[index]}`)));
  }

  #compare() {
    if (this.requests.length > 1) this.requests.length = 1;
    else this.requests.push(structuredClone(this.current));
    this.select(this.requests.length - 1);
  }

  select(index) {
    this.index = index;
    this.#fill();
    this.calls.onchange();
  }

  setAll(requests) {
    for (const request of requests) request.model ||= this.models[0]?.name ?? '';
    this.requests = requests;
    this.index = 0;
    this.#fill();
  }

  busy(is) {
    this.button.textContent = is ? 'Decoding…' : 'Decode';
    this.element.setAttribute('aria-busy', String(is));
  }

  #sourceFault(text) {
    this.fault.textContent = text;
    this.fault.hidden = text === '';
    if (text) this.source.setAttribute('aria-invalid', 'true');
    else this.source.removeAttribute('aria-invalid');
  }

  /** Returns the faults that have no control. */
  showFaults(violations) {
    const rest = this.options.showFaults(violations);
    const ofSource = rest.filter(({ field: name }) => name.startsWith('sources'));
    this.#sourceFault(ofSource.map(({ description }) => description).join('; '));
    return rest.filter((one) => !ofSource.includes(one));
  }
}

const field = (text, id, control) => el('div.field', {}, el('label', { for: id }, text), control);
