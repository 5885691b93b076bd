// The decode page: one request, or two side by side, and what the server answers.
import { answerTable, heatMap, sourceLabels } from './answer.js';
import { call, modelPath } from './api.js';
import { BeamView } from './beam.js';
import { announce, copyButton, el } from './dom.js';
import { RequestForm } from './form.js';
import { isKnown, NARROW, searchKind } from './options.js';
import { bodyOf, cliLine, curlLine, fromFragment, pythonLines, toFragment } from './request.js';
import { searchOfLattice } from './search.js';
import { searchOfTrace } from './trace.js';

const NAMES = ['A', 'B'];
// Candidates a step that were dropped, unless the request says how many.
const TRACE = 8;

export function searchOf({ decoded, config }) {
  if (decoded.trace?.steps?.length) return searchOfTrace(decoded);
  return decoded.lattice?.steps?.length ? searchOfLattice(decoded, config) : null;
}

export class DecodePage {
  /** `grpcPort`: of the server's gRPC listener; 0: it has none that lines could name. */
  constructor(root, schemas, models, grpcPort) {
    this.schemas = schemas;
    this.server = `${location.hostname}:${grpcPort || 8001}`;
    this.configs = new Map();
    this.views = [];
    this.form = new RequestForm(schemas, models, { describe: (request) => this.#config(request), onrun: () => this.run(), onchange: () => this.#changed() });
    this.output = el('div.output', {}, el('p.hint', {}, 'Type a source and press Decode: the answers, the beam that found them and the attention show up here.'));
    this.snippets = el('section.card', { 'aria-labelledby': 'again' });
    root.append(el('h1.visually-hidden', {}, 'Decode'), el('div.columns', {}, this.form.element, el('div.results', {}, this.output, this.snippets)));
    this.#drawSnippets();
  }

  /** Takes the requests of a link; decodes them if they have a source. */
  async open(fragment) {
    if (fragment === this.fragment) return;
    this.form.setAll(fromFragment(fragment, this.schemas));
    this.#drawSnippets();
    if (this.form.requests.every((request) => request.source !== '')) await this.run();
  }

  /** What the model says of itself; null if it does not. */
  async #config({ model, version }) {
    const path = modelPath(model, version);
    if (!this.configs.has(path)) {
      this.configs.set(path, call(path).catch(() => { this.configs.delete(path); return null; }));
    }
    return this.configs.get(path);
  }

  #changed() {
    this.#drawSnippets();
  }

  async run() {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    const requests = this.form.requests;
    this.form.showFaults([], '');
    this.form.busy(true);
    const answers = await Promise.allSettled(requests.map((request) => this.#ask(request, running.signal)));
    if (this.running !== running) return;
    this.form.busy(false);
    this.fragment = toFragment(requests);
    history.replaceState(null, '', this.fragment);
    const failed = answers.findIndex((answer) => answer.status === 'rejected');
    if (failed >= 0) this.#fail(failed, answers[failed].reason);
    else this.#show(answers.map((answer) => answer.value));
  }

  async #ask(request, signal) {
    const description = await this.#config(request);
    const search = searchKind(description?.config);
    const knows = (name) => this.schemas[name] && isKnown(this.schemas[name], search);
    const own = knows('trace') ? { trace: TRACE } : knows('lattice') ? { lattice: true } : {};
    if (description?.config?.decoder?.attention_output) own.attention = 'ATTENTION_SOFT';
    const path = `${modelPath(request.model, request.version)}:decode`;
    const ask = (added) => call(path, bodyOf(request, this.schemas, added), signal);
    // Who may not see a trace, or asks for one where there is none to be had, sees what was kept.
    const response = await ask(own).catch((error) => {
      if (!own.trace || request.options.trace || !mayBeTheTrace(error)) throw error;
      return ask({ ...own, trace: 0, lattice: true });
    });
    const { decoded } = response.results[0];
    return { request: structuredClone({ ...request, features: null, picture: null }), config: description?.config, response, decoded, picked: 0 };
  }

  #fail(index, error) {
    this.#clear();
    this.form.select(index);
    const rest = this.form.showFaults(error.violations ?? [], error.message);
    const faults = rest.map(({ field, description }) => el('li', {}, el('code', {}, field), ` ${description}`));
    this.output.replaceChildren(el('div.notice.bad', { role: 'alert' }, el('strong', {}, this.form.requests.length > 1 ? `Request ${NAMES[index]} failed. ` : 'The request failed. '),
      error.violations?.length ? null : error.message, error.violations?.length && !faults.length ? 'See the fields that are marked.' : null,
      faults.length ? el('ul', {}, faults) : null));
  }

  #clear() {
    for (const view of this.views) view.destroy();
    this.views = [];
  }

  #show(answers) {
    this.#clear();
    this.output.replaceChildren(el(`div.answers${answers.length > 1 ? '.two' : ''}`, {},
      answers.map((answer, index) => this.#panel(answer, index, answers[1 - index]))));
    const best = answers[0].decoded.hypotheses[0];
    if (NARROW.matches) this.output.scrollIntoView();  // the form is above it and longer than the screen
    announce(best ? `Decoded: ${best.text}` : 'Decoded; no hypothesis');
  }

  #panel(answer, index, other) {
    const { decoded, response, request } = answer;
    const several = other !== undefined;
    const name = several ? `Request ${NAMES[index]}` : 'Answer';
    const facts = [`${response.model} version ${response.version}`, `${decoded.steps} steps`,
      `${decoded.compute_ms.toFixed(1)} ms`, response.numerics];
    const heat = el('div');
    const table = el('div');
    const pick = (rank) => {
      answer.picked = rank;
      table.replaceChildren(answerTable(decoded, { others: other?.decoded.hypotheses, picked: rank, onpick: pick, name }));
      heat.replaceChildren(...this.#attention(answer, several ? `Attention of ${NAMES[index]}` : 'Attention'));
    };
    pick(0);
    return el('div.panel', {},
      el('section.card', { 'aria-label': name }, el('h2', {}, name, el('span.source', {}, request.source)),
        table, unknown(decoded), el('p.facts', {}, facts.join(' · '))),
      this.#beam(answer, several ? `Beam of ${NAMES[index]}` : 'Beam'), heat);
  }

  #beam({ decoded, config }, name) {
    const search = searchOf({ decoded, config });
    if (!search) return null;
    const separator = config?.target?.form === 'TEXT_FORM_CHARACTERS' ? '' : ' ';
    const view = new BeamView(search, { separator, name });
    this.views.push(view);
    return el('section.card', { 'aria-label': name }, el('h2', {}, name, el('span.count', {}, `${search.size.toLocaleString('en')} hypotheses`)), view.element,
      search.truncated ? el('p.notice', {}, 'The search is longer than a trace may be: its last steps are missing.') : null);
  }

  #attention({ decoded, config, request, picked }, name) {
    const hypothesis = decoded.hypotheses[picked];
    const map = hypothesis && heatMap(hypothesis, sourceLabels(request, config, hypothesis.attention?.columns ?? 0), name);
    return map ? [el('section.card', { 'aria-label': name }, el('h2', {}, name, el('span.count', {}, `hypothesis ${picked + 1}`)), map)] : [];
  }

  #drawSnippets() {
    const request = this.form.current;
    const { origin, pathname } = location;
    const link = origin + pathname + toFragment(this.form.requests);
    const texts = [['Link', link], ['curl', curlLine(request, this.schemas, origin)],
      ['Python', pythonLines(request, this.schemas, this.server)], ['Command line', cliLine(request, this.schemas, this.server)]];
    this.snippets.replaceChildren(el('h2', { id: 'again' }, 'The same again'),
      ...texts.map(([name, text]) => el('div.snippet', { 'data-snippet': name }, el('div.snippet-head', {}, el('h3', {}, name), copyButton(`Copy ${name}`, () => text)),
        el('pre', { tabindex: 0, role: 'region', 'aria-label': name }, el('code', {}, text)))),
      el('p.help', {}, 'Add -H \'Authorization: Bearer …\', token_file or --token-file where the server asks for a token.'));
  }
}

const mayBeTheTrace = (error) => error.status === 403 || error.violations?.some(({ field }) => field.includes('trace'));

function unknown(decoded) {
  const positions = decoded.unknown_positions ?? [];
  return positions.length ? el('p.notice', {}, `Not in the vocabulary: position ${positions.map((at) => at + 1).join(', ')} of the source.`) : null;
}
