// Sends requests with the examples of deploy/examples and tells who answered as JSON, one line.
//
//   node stage.mjs <folder of node_modules> <deploy/examples> <base URL of the edge>

import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [modules, examples, base] = process.argv.slice(2);
const axios = createRequire(`${modules}/`)('axios');
const example = (name) => import(pathToFileURL(`${examples}/${name}`));
const { stageOf, withStage } = await example('stage-fetch.mjs');
const { sendStage } = await example('stage-axios.mjs');

const API = `${base}/api/v4/user`;

// As much of a document as is asked.
function page(content) {
  const meta = content === undefined ? null : { content };
  return { querySelector: (wanted) => (wanted === 'meta[name="gitlab-stage"]' ? meta : null) };
}

function client(stage, options) {
  const made = axios.create(options);
  sendStage(made, stage, [base]);
  return made;
}

// Another origin, which answers with the headers that it was sent.
const elsewhere = createServer((request, response) => response.end(JSON.stringify(request.headers)));
await new Promise((done) => elsewhere.listen(0, '127.0.0.1', done));
const other = `http://127.0.0.1:${elsewhere.address().port}/`;

const stages = ['cny', '', undefined].map((content) => stageOf(page(content)));
const fromCanary = withStage(fetch, 'cny', [base]);
const fromOther = withStage(fetch, null, [base]);
const text = async (answer) => (await answer).text();
const data = async (answer) => (await answer).data;

// With the echo as our own origin: what is sent there.
const own = withStage(fetch, 'cny', [other.slice(0, -1)]);
const ownAxios = axios.create();
sendStage(ownAxios, 'cny', [other.slice(0, -1)]);
const echo = async (answer) => JSON.parse(await text(answer));
const word = { headers: { 'X-GitLab-Stage': 'main' } };
const mark = (value) => ({ headers: { 'X-Mark': value } });

const told = {
  stages,
  fetch: {
    'canary page': await text(fromCanary(API)),
    'request object': await text(fromCanary(new Request(API))),
    'other page': await text(fromOther(API)),
  },
  axios: {
    'canary page': await data(client('cny').get(API)),
    'other page': await data(client(null).get(API)),
    'relative address': await data(client('cny', { baseURL: base }).get('/api/v4/user')),
  },
  'own word': [
    (await echo(own(other, word)))['x-gitlab-stage'],
    (await data(ownAxios.get(other, word)))['x-gitlab-stage'],
  ],
  kept: [
    (await echo(own(other, mark('1'))))['x-mark'],
    (await echo(own(new Request(other, mark('2')))))['x-mark'],
    (await data(ownAxios.get(other, mark('3'))))['x-mark'],
  ],
  'told elsewhere': [
    (await echo(fromCanary(other)))['x-gitlab-stage'] ?? null,
    (await data(client('cny').get(other)))['x-gitlab-stage'] ?? null,
    (await data(client('cny', { baseURL: other }).get('/')))['x-gitlab-stage'] ?? null,
  ],
};
elsewhere.close();
elsewhere.closeAllConnections();
console.log(JSON.stringify(told));
