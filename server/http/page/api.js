// Calls of the server's API, always of the listener that served the page.

const TOKEN = 'beamwright-token';

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? '',
  set: (text) => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN)),
};

/** What a call failed with: `message`, `status` (HTTP; 0: no answer), `violations` [{field, description}]. */
export class ApiError extends Error {
  constructor(message, status = 0, violations = []) {
    super(message);
    this.status = status;
    this.violations = violations;
  }
}

function errorOf(status, body) {
  const error = body?.error;
  const message = typeof error === 'string' ? error : error?.message;
  const details = error?.details ?? body?.details ?? [];
  const violations = details.flatMap((detail) => detail.fieldViolations ?? []);
  if (status === 401) return new ApiError(`${message ?? 'unauthenticated'} (enter a token under Access)`, status);
  return new ApiError(message ?? `HTTP status ${status}`, status, violations);
}

/** GET, or POST of `body`; the answer's JSON. Throws ApiError, and AbortError if `signal` says so. */
export async function call(path, body, signal) {
  const headers = {};
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? 'GET' : 'POST',
      headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
      credentials: 'same-origin', cache: 'no-store',
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError('The server does not answer.');
  }
  let answer;
  try {
    answer = await response.json();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(response.ok ? 'The answer ended too early.' : `HTTP status ${response.status}`, response.status);
  }
  if (!response.ok) throw errorOf(response.status, answer);
  return answer;
}

/** Ports of the listeners of gRPC and WebSocket; 0: the server has none. */
export async function listenerPorts() {
  const { headers } = await fetch('/', { method: 'HEAD', cache: 'no-store' });
  const port = (name) => Number(headers.get(`Beamwright-${name}-Port`) ?? 0);
  return { grpc: port('GRPC'), webSocket: port('WebSocket') };
}

export function modelPath(model, version) {
  const path = `/v1/models/${encodeURIComponent(model)}`;
  return version ? `${path}/versions/${encodeURIComponent(version)}` : path;
}

/** Fields of a message of the API, as the OpenAPI document describes them. */
export async function optionSchema() {
  const document = await call('/openapi.json');
  return document.components.schemas['beamwright.v1.DecodeOptions'].properties;
}
