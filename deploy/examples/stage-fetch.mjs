// Sends X-GitLab-Stage with API requests of a page that the canary has sent, so that they reach the
// canary too. Best effort: without the header, or while the canary is out of service, the request
// goes to the main stage.
//
//   <meta name="gitlab-stage" content="cny">        written into the page by the canary's application
//
//   const request = withStage(fetch, stageOf(document), [location.origin]);
//   await request('/api/v4/user');

export const HEADER = 'X-GitLab-Stage';

/** The stage that has sent this page, or null. Asked once: a page stays what it is. */
export function stageOf(document) {
  return document.querySelector('meta[name="gitlab-stage"]')?.content || null;
}

/** Whether this address may be told the stage. Any other would get a preflight that it refuses. */
export function isOurs(address, origins) {
  return origins.includes(new URL(address, origins[0]).origin);
}

/** `fetch` with the header, for `origins` only; relative addresses are those of the first one. */
export function withStage(fetch, stage, origins) {
  return (resource, options = {}) => {
    const address = resource instanceof Request ? resource.url : String(resource);
    if (!stage || !isOurs(address, origins)) return fetch(resource, options);
    // `options.headers` takes the place of the request's own: begin with those that would count.
    const own = resource instanceof Request ? resource.headers : undefined;
    const headers = new Headers(options.headers ?? own);
    if (!headers.has(HEADER)) headers.set(HEADER, stage);
    return fetch(resource, { ...options, headers });
  };
}
