// The same for axios: an interceptor of one instance.
//
//   const client = axios.create({ baseURL: location.origin });
//   sendStage(client, stageOf(document), [location.origin]);

import { HEADER, isOurs } from './stage-fetch.mjs';

/** Adds the header to the requests of this instance that go to one of `origins`. */
export function sendStage(client, stage, origins) {
  return client.interceptors.request.use((config) => {
    if (stage && isOurs(client.getUri(config), origins) && !config.headers.has(HEADER)) {
      config.headers.set(HEADER, stage);
    }
    return config;
  });
}
