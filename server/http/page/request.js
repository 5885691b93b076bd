// A request as it is typed: what it is as JSON, as a link and as lines that do the same elsewhere.
import { modelPath } from './api.js';
import { kindOf, pair, shortEnum, toJson, valuesOf } from './options.js';

/** {model, version, kind: 'text' | 'ids' | 'picture' | 'features', source, features, picture, options: {name: text}} */
export const emptyRequest = () => ({ model: '', version: '', kind: 'text', source: '', features: null, picture: null, options: {} });

/** One that nobody has typed yet: the page suggests options for it. */
export const newRequest = () => ({ ...emptyRequest(), isNew: true });

const ids = (text) => text.split(/[\s,]+/).filter(Boolean).map((id) => (Number.isInteger(Number(id)) ? Number(id) : id));

function sourceJson(request) {
  if (request.kind === 'ids') return { ids: { ids: ids(request.source) } };
  if (request.kind === 'picture') return { picture: request.picture?.data };
  return request.kind === 'features' ? { features: request.features?.tensor } : { text: request.source };
}

/** `own`: options that the page asks for by itself. */
export function bodyOf(request, schemas, own = {}) {
  const options = { ...own };
  for (const [name, text] of Object.entries(request.options)) {
    if (schemas[name]) options[name] = toJson(schemas[name], text);
  }
  return { sources: [sourceJson(request)], options };
}

const FIELDS = ['model', 'version', 'kind', 'source'];

function write(parameters, prefix, request) {
  for (const field of FIELDS) {
    if (request[field] && !(field === 'kind' && request.kind === 'text')) parameters.set(prefix + field, request[field]);
  }
  for (const [name, text] of Object.entries(request.options)) parameters.set(prefix + name, text);
}

function read(parameters, prefix, schemas) {
  const request = emptyRequest();
  for (const field of FIELDS) request[field] = parameters.get(prefix + field) ?? request[field];
  if (!['text', 'ids', 'picture', 'features'].includes(request.kind)) request.kind = 'text';
  for (const name of Object.keys(schemas)) {
    if (parameters.has(prefix + name)) request.options[name] = parameters.get(prefix + name);
  }
  return request;
}

/** "#/decode?model=...": one request, or two to compare, those of the second with "b." before each name. */
export function toFragment(requests) {
  const parameters = new URLSearchParams();
  requests.forEach((request, index) => write(parameters, index === 0 ? '' : 'b.', request));
  return `#/decode?${parameters}`;
}

export function fromFragment(fragment, schemas) {
  const parameters = new URLSearchParams(fragment.split('?')[1] ?? '');
  if ([...parameters.keys()].length === 0) return [newRequest()];
  const requests = [read(parameters, '', schemas)];
  if ([...parameters.keys()].some((name) => name.startsWith('b.'))) requests.push(read(parameters, 'b.', schemas));
  return requests;
}

/** As one word of a POSIX shell, whatever it holds. */
export function shellQuote(text) {
  return /^[A-Za-z0-9_\/:.,=+@%-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** As a literal of Python. JSON's texts are Python's, but for what lies beyond 16 bits, which stays as it is. */
const python = (value) => JSON.stringify(value);

export function curlLine(request, schemas, origin) {
  const url = origin + modelPath(request.model, request.version) + ':decode';
  const body = ['features', 'picture'].includes(request.kind) ? '@request.json' : JSON.stringify(bodyOf(request, schemas));
  return `curl ${shellQuote(url)} -d ${shellQuote(body)}`;
}

function cliOption(name, schema, text) {
  const flag = name.replaceAll('_', '-');
  const kind = kindOf(schema);
  if (kind === 'bool') return [text === 'true' ? `--${flag}` : `--no-${flag}`];
  const values = kind === 'enum' ? [shortEnum(text, schema.enum)] : valuesOf(schema, text);
  // With "=", so that a value may begin with a dash.
  return values.map((value) => `--${flag}=${shellQuote(value)}`);
}

function cliFeatures({ name, isRaw, tensor }) {
  const flags = [`--features=${shellQuote(name)}`];
  if (isRaw) flags.push(`--features-shape=${tensor.shape.join(',')}`);
  return flags;
}

/** `server`: host:port of gRPC. */
export function cliLine(request, schemas, server) {
  const { features } = request;
  if (request.kind === 'features' && features?.isRaw && features.tensor.dtype !== 'f32') return '# Of raw values, the command line takes f32 alone: save them as .npy.';
  const words = ['beamwright decode', `--server ${shellQuote(server)}`, `--model=${shellQuote(request.model)}`];
  if (request.version) words.push(`--version=${shellQuote(request.version)}`);
  for (const [name, text] of Object.entries(request.options)) {
    if (schemas[name]) words.push(...cliOption(name, schemas[name], text));
  }
  if (request.kind === 'features') return [...words, ...cliFeatures(features ?? { name: request.source || 'features.npy' })].join(' ');
  if (request.kind === 'picture') return [...words, `--picture=${shellQuote(request.source || 'picture.png')}`].join(' ');
  if (request.kind === 'ids') words.push('--ids');
  words.push('--', shellQuote(request.source));
  return words.join(' ');
}

function pythonOption(name, schema, text) {
  const kind = kindOf(schema);
  if (kind === 'bool') return text === 'true' ? 'True' : 'False';
  if (kind === 'number') return Number.isFinite(Number(text)) ? String(Number(text)) : python(text);
  if (kind === 'enum') return python(shortEnum(text, schema.enum));
  if (kind === 'hotword' || kind === 'fusion' || kind === 'bias') {
    const pairs = valuesOf(schema, text).map(pair);
    return `{${pairs.map(([word, number]) => `${python(word)}: ${number ?? 1}`).join(', ')}}`;
  }
  return schema.type === 'array' ? `[${valuesOf(schema, text).map(python).join(', ')}]` : python(text);
}

const NUMPY = { f16: '<f2', f32: '<f4', f64: '<f8', i32: '<i4', i64: '<i8', u8: 'u1' };

function pythonFeatures({ name, isRaw, tensor }) {
  return isRaw ? `numpy.fromfile(${python(name)}, ${python(NUMPY[tensor.dtype])}).reshape(${tensor.shape.join(', ')})` : `numpy.load(${python(name)})`;
}

export function pythonLines(request, schemas, server) {
  const source = request.kind === 'ids' ? `[${ids(request.source).join(', ')}]` :
    request.kind === 'picture' ? `beamwright.Picture(${python(request.source || 'picture.png')})` :
    request.kind === 'features' ? pythonFeatures(request.features ?? { name: request.source || 'features.npy' }) : python(request.source);
  const options = [`model=${python(request.model)}`];
  if (request.version) options.push(`version=${python(request.version)}`);
  for (const [name, text] of Object.entries(request.options)) {
    if (schemas[name]) options.push(`${name}=${pythonOption(name, schemas[name], text)}`);
  }
  return [...(request.kind === 'features' ? ['import numpy'] : []), 'import beamwright', '',
    `with beamwright.Client(${python(server)}) as client:`,
    `    decoded = client.decode(${source}, ${options.join(', ')})`,
    '    for hypothesis in decoded.hypotheses:',
    '        print(hypothesis.score, hypothesis.text)'].join('\n');
}
