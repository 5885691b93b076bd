// Chooses the page by the fragment of the address and starts it.
import { call, listenerPorts, optionSchema, token } from './api.js';
import { DecodePage } from './decode.js';
import { el, find } from './dom.js';
import { canListen, ListenPage } from './listen.js';
import { StatusPage } from './status.js';
import { canTranslate, TranslatePage } from './translate.js';

const NAMES = ['decode', 'listen', 'translate', 'status'];
const pages = {};

async function startDecode() {
  await start('decode', async (root) => {
    const [schemas, list, ports] = await Promise.all([optionSchema(), call('/v1/models'), listenerPorts()]);
    root.replaceChildren();
    if (!list.models?.length) {
      root.append(el('p.notice', { role: 'status' }, 'The server has no model yet.'));
      return;
    }
    pages.decode = new DecodePage(root, schemas, list.models, ports.grpc);
  });
}

async function start(name, fill) {
  const root = find(name);
  root.replaceChildren(el('p.hint', {}, 'Asking the server for its models…'));
  try {
    await fill(root);
  } catch (error) {
    root.replaceChildren(el('div.notice.bad', { role: 'alert' }, error.message, ' ',
      el('button.quiet', { type: 'button', onclick: () => route() }, 'Try again')));
    if (error.status === 401 || error.status === 403) find('access').open = true;
  }
}

// Pages that need models of a kind are offered where there are such models.
async function offerPages() {
  for (const [name, can] of [['listen', canListen], ['translate', canTranslate]]) {
    find(`nav-${name}`).hidden = !(await can().catch(() => false)) && !location.hash.startsWith(`#/${name}`);
  }
}

async function route() {
  const page = NAMES.find((name) => location.hash.startsWith(`#/${name}`)) ?? 'decode';
  for (const name of NAMES) {
    find(name).hidden = name !== page;
    if (name === page) find(`nav-${name}`).setAttribute('aria-current', 'page');
    else find(`nav-${name}`).removeAttribute('aria-current');
  }
  document.title = { status: 'Status – Beamwright', listen: 'Listen – Beamwright', translate: 'Translate – Beamwright' }[page] ?? 'Beamwright';
  if (page === 'status') pages.status ??= new StatusPage(find('status'));
  pages.status?.show(page === 'status');
  if (page === 'listen' && !pages.listen) await start('listen', async (root) => { pages.listen = await ListenPage.start(root); });
  if (page === 'translate' && !pages.translate) await start('translate', async (root) => { pages.translate = await TranslatePage.start(root); });
  if (page !== 'decode') return;
  if (!pages.decode) await startDecode();
  await pages.decode?.open(location.hash);
}

find('token').value = token.get();
function takeToken() {
  token.set(find('token').value.trim());
  route();
  offerPages();
}

find('token').addEventListener('change', takeToken);
find('token-form').addEventListener('submit', (event) => {
  event.preventDefault();
  takeToken();
  find('access').open = false;
});
window.addEventListener('hashchange', route);
route();
offerPages();
