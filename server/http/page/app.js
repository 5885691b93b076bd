// Chooses the page by the fragment of the address and starts it.
import { call, optionSchema, token } from './api.js';
import { DecodePage } from './decode.js';
import { el, find } from './dom.js';
import { StatusPage } from './status.js';

const pages = {};

async function startDecode() {
  const root = find('decode');
  root.replaceChildren(el('p.hint', {}, 'Asking the server for its models…'));
  try {
    const [schemas, list] = await Promise.all([optionSchema(), call('/v1/models')]);
    root.replaceChildren();
    if (!list.models?.length) {
      root.append(el('p.notice', { role: 'status' }, 'The server has no model yet.'));
      return;
    }
    pages.decode = new DecodePage(root, schemas, list.models);
  } catch (error) {
    root.replaceChildren(el('div.notice.bad', { role: 'alert' }, error.message, ' ',
      el('button.quiet', { type: 'button', onclick: () => route() }, 'Try again')));
    if (error.status === 401 || error.status === 403) find('access').open = true;
  }
}

async function route() {
  const page = location.hash.startsWith('#/status') ? 'status' : 'decode';
  for (const name of ['decode', 'status']) {
    find(name).hidden = name !== page;
    if (name === page) find(`nav-${name}`).setAttribute('aria-current', 'page');
    else find(`nav-${name}`).removeAttribute('aria-current');
  }
  document.title = page === 'status' ? 'Status – Beamwright' : 'Beamwright';
  if (page === 'status') pages.status ??= new StatusPage(find('status'));
  pages.status?.show(page === 'status');
  if (page !== 'decode') return;
  if (!pages.decode) await startDecode();
  await pages.decode?.open(location.hash);
}

find('token').value = token.get();
function takeToken() {
  token.set(find('token').value.trim());
  route();
}

find('token').addEventListener('change', takeToken);
find('token-form').addEventListener('submit', (event) => {
  event.preventDefault();
  takeToken();
  find('access').open = false;
});
window.addEventListener('hashchange', route);
route();
