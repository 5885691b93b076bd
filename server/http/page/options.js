// Controls of the decode options, made of the rules that the protos give them.
import { el } from './dom.js';

// Asked for by the page itself, which draws it.
const OWN = ['lattice'];
// There the answer stands below the form: groups are closed, so that it is near.
export const NARROW = matchMedia('(max-width: 900px)');

const MESSAGES = {
  'beamwright.v1.TargetTokens': 'tokens',
  'beamwright.v1.Hotword': 'hotword',
  'beamwright.v1.FusionWeight': 'fusion',
  'beamwright.v1.LogitBias': 'bias',
};

/** "STOP_MODE_SAFE" among its kind is "safe". */
export function shortEnum(name, all) {
  const prefix = all[0].replace(/UNSPECIFIED$/, '');
  return name.slice(prefix.length).toLowerCase().replaceAll('_', '-');
}

/** What the field of a schema takes: 'number', 'enum', 'bool', 'text', 'tokens', 'hotword', 'fusion', 'bias'. */
export function kindOf(schema) {
  const one = schema.items ?? schema;
  if (one.$ref) return MESSAGES[one.$ref.split('/').pop()] ?? 'json';
  if (one.enum) return 'enum';
  if (one.type === 'boolean') return 'bool';
  return one.type === 'string' ? 'text' : 'number';
}

/** How the targets of a model are searched for, as `x-searches` of an option names it; '' if that is not known. */
export function searchKind(config) {
  if (!config) return '';
  if (config.ctc) return 'SEARCH_CTC';
  if (config.tags) return 'SEARCH_TAGS';
  return config.transducer ? 'SEARCH_TRANSDUCER' : 'SEARCH_TOKENS';
}

/** Options that the model refuses because its bundle does not have what they are about. */
function refusedBy(config) {
  if (!config) return new Set();
  const needs = {
    fusion: config.scorers?.length > 0, allowed_list: config.token_lists?.length > 0, lexical_shortlist: Boolean(config.lexical_table),
    attention: Boolean(config.decoder?.attention_output), coverage_penalty: Boolean(config.decoder?.attention_output),
  };
  return new Set(Object.keys(needs).filter((name) => !needs[name]));
}

/** Whether that kind of search has the option. */
export const isKnown = (schema, search) => !search || !schema['x-searches'] || schema['x-searches'].includes(search);

// Texts, one a line: white space counts, and \n stands for a line feed.
const texts = (text) => text.split('\n').filter((line) => line !== '').map((line) => line.replaceAll('\\n', '\n'));
const lines = (text) => text.split('\n').map((line) => line.trim()).filter((line) => line !== '');

// "x:2" is x with 2.
function pair(text) {
  const at = text.lastIndexOf(':');
  const number = at < 0 ? NaN : Number(text.slice(at + 1));
  return at > 0 && Number.isFinite(number) && text.slice(at + 1).trim() !== '' ?
    [text.slice(0, at), number] : [text, undefined];
}

function oneValue(kind, text) {
  if (kind === 'tokens') return { text };
  const [name, number] = pair(text);
  if (kind === 'bias') return { text: name, bias: number };
  return kind === 'hotword' ? { text: name, bonus: number } : { name, weight: number };
}

/** What was typed, as JSON for the API. Numbers that are none stay texts: the server says what is wrong. */
export function toJson(schema, text) {
  const kind = kindOf(schema);
  if (kind === 'number') return Number.isFinite(Number(text)) ? Number(text) : text;
  if (kind === 'bool') return text === 'true';
  if (kind === 'text' && schema.type === 'array') return texts(text);
  if (kind === 'text' || kind === 'enum') return text;
  return schema.type === 'array' ? lines(text).map((line) => oneValue(kind, line)) : oneValue(kind, text);
}

/** The values of an option that may be given several times; for others one. */
export const valuesOf = (schema, text) => {
  if (schema.type !== 'array') return [text];
  return kindOf(schema) === 'text' ? texts(text) : lines(text);
};
export { pair };

function defaultText(schema, fallback) {
  const value = fallback ?? schema.default;
  if (value === undefined || value === null || typeof value === 'object') return '';
  return schema.enum ? shortEnum(String(value), schema.enum) : String(value);
}

function control(name, schema, id, attributes) {
  const kind = kindOf(schema);
  if (kind === 'enum' || kind === 'bool') {
    const values = kind === 'bool' ? ['true', 'false'] : schema.enum.filter((value) => !value.endsWith('_UNSPECIFIED'));
    return el('select', { id, ...attributes }, el('option', { value: '' }, ''),
      values.map((value) => el('option', { value }, kind === 'bool' ? value : shortEnum(value, schema.enum))));
  }
  if (schema.type === 'array') return el('textarea', { id, rows: 2, spellcheck: 'false', placeholder: 'one a line', ...attributes });
  const numeric = kind === 'number';
  return el('input', { id, type: 'text', inputmode: numeric ? 'decimal' : undefined, spellcheck: 'false',
    autocomplete: 'off', ...attributes });
}

function rangeText(schema) {
  const { minimum, maximum, 'x-unit': unit } = schema;
  const range = minimum !== undefined && maximum !== undefined ? `${minimum} to ${maximum}` :
    minimum !== undefined ? `from ${minimum}` : maximum !== undefined ? `up to ${maximum}` : '';
  return [range, unit].filter(Boolean).join(' ');
}

/** The panel of all options. `onchange` is called when one is set or cleared. */
export class OptionPanel {
  constructor(schemas, onchange) {
    this.schemas = schemas;
    this.rows = new Map();
    this.search = '';
    this.refused = new Set();
    this.onchange = onchange;
    const groups = new Map();
    for (const [name, schema] of Object.entries(schemas)) {
      if (OWN.includes(name)) continue;
      const group = schema['x-group'] ?? 'Other';
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(this.#row(name, schema));
    }
    this.filter = el('input', { type: 'search', id: 'option-filter', placeholder: 'Find an option', 'aria-label': 'Find an option',
      oninput: () => this.#narrow(true) });
    this.groups = [...groups].map(([name, rows], index) => {
      const count = el('span.count');
      const details = el('details.group', { open: index === 0 && !NARROW.matches }, el('summary', {}, name, count), rows.map((row) => row.element));
      return { details, rows, count };
    });
    this.element = el('div.options', {}, this.filter, this.groups.map((group) => group.details));
  }

  #row(name, schema) {
    const id = `option-${name}`;
    const fault = el('p.fault', { id: `${id}-fault`, hidden: true });
    const input = control(name, schema, id, { 'aria-describedby': `${id}-help ${id}-fault` });
    const range = rangeText(schema);
    const help = el('p.help', { id: `${id}-help` }, schema.description ?? '', range ? el('span.range', {}, range) : null);
    const element = el('div.option', {}, el('label', { for: id }, name.replaceAll('_', ' ')), input, help, fault);
    const row = { name, schema, input, element, fault };
    input.addEventListener('input', () => {
      this.#mark(row);
      this.onchange();
    });
    this.rows.set(name, row);
    return row;
  }

  #mark(row) {
    row.element.classList.toggle('set', row.input.value !== '');
    for (const group of this.groups) {
      const count = group.rows.filter((one) => one.input.value !== '').length;
      group.count.textContent = count > 0 ? `${count} set` : '';
    }
  }

  /** Shows what fits the filter and the model; `opens`: opens what the filter finds, and closes the rest. */
  #narrow(opens) {
    const wanted = this.filter.value.trim().toLowerCase();
    for (const [index, group] of this.groups.entries()) {
      let any = false;
      for (const row of group.rows) {
        const fits = `${row.name.replaceAll('_', ' ')} ${row.schema.description ?? ''}`.toLowerCase().includes(wanted);
        // What is set stays in sight, whatever the model: else nobody could take it back.
        const isOffered = isKnown(row.schema, this.search) && !this.refused.has(row.name);
        const shown = fits && (isOffered || row.input.value !== '');
        row.element.hidden = !shown;
        any ||= shown;
      }
      group.details.hidden = !any;
      if (opens) group.details.open = wanted === '' ? index === 0 && !NARROW.matches : any;
    }
  }

  /** Leaves out the options that the model's kind of search does not have, or that this model refuses. */
  setModel(config) {
    this.search = searchKind(config);
    this.refused = refusedBy(config);
    this.#narrow(false);
  }

  /** Shows what holds when an option is left empty: the model's word, else the rule's. */
  setDefaults(fallbacks) {
    for (const row of this.rows.values()) {
      const text = defaultText(row.schema, fallbacks?.[row.name]);
      const kind = kindOf(row.schema);
      if (kind === 'enum' || kind === 'bool') row.input.options[0].textContent = text || 'unset';
      else if (row.schema.type !== 'array') row.input.placeholder = text;
    }
  }

  get() {
    const values = {};
    for (const [name, row] of this.rows) if (row.input.value !== '') values[name] = row.input.value;
    return values;
  }

  set(values) {
    for (const [name, row] of this.rows) {
      row.input.value = values[name] ?? '';
      this.#mark(row);
    }
    this.#narrow(false);
    for (const group of this.groups) if (!NARROW.matches && group.rows.some((row) => row.input.value !== '')) group.details.open = true;
  }

  /** Shows faults of fields beside their controls; returns those that have none here. */
  showFaults(violations) {
    for (const row of this.rows.values()) {
      row.fault.hidden = true;
      row.fault.textContent = '';
      row.input.removeAttribute('aria-invalid');
    }
    const rest = [];
    let first = null;
    for (const { field, description } of violations) {
      const row = this.rows.get((/^(?:options\.)?([a-z_0-9]+)/.exec(field) ?? [])[1]);
      if (!row) {
        rest.push({ field, description });
        continue;
      }
      row.fault.textContent = description;
      row.fault.hidden = false;
      row.input.setAttribute('aria-invalid', 'true');
      row.element.closest('details').open = true;
      first ??= row.input;
    }
    first?.focus();
    return rest;
  }
}
