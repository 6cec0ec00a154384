"use strict";
// Opens the status page in Chromium and tells what it saw as JSON, one line.
//
//   node page.js <folder of node_modules> <chromium> <base URL> <file to write a KV value to> <value>

const { readFileSync, renameSync, writeFileSync } = require("node:fs");
const { createRequire } = require("node:module");

const [modules, chromium, base, key, value] = process.argv.slice(2);
const wanted = createRequire(`${modules}/`);
const playwright = wanted("playwright-core");
const axe = readFileSync(wanted.resolve("axe-core/axe.min.js"), "utf8");

// The service may be busy; a test that waits for it is failing.
const PATIENCE_MS = 30_000;

async function open(browser, log, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("request", (request) => log.requests.push(request.url()));
  page.on("pageerror", (error) => log.errors.push(error.message));
  page.on("dialog", (dialog) => log.errors.push(`dialog: ${dialog.message()}`));
  page.on("console", (message) => {
    if (message.type() === "error") log.errors.push(message.text());
  });
  await page.goto(base);
  return page;
}

async function violations(page) {
  const found = await page.evaluate(`${axe}; axe.run()`);
  return found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`);
}

function overflow(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
}

// What the keyboard reaches, in its order.
async function focused(page, count) {
  const names = [];
  for (let at = 0; at < count; at += 1) {
    await page.keyboard.press("Tab");
    names.push(await page.evaluate(() => {
      const element = document.activeElement;
      const visible = getComputedStyle(element).outlineStyle !== "none";
      return `${element.nodeName.toLowerCase()} ${(element.id || element.textContent).trim()}${visible ? "" : " UNSEEN"}`;
    }));
  }
  return names;
}

async function follows(page) {
  await page.waitForFunction(() => document.getElementById("live").classList.contains("is-live"));
  // What a person has focused stays so while the page changes.
  await page.focus("#find-node");
  const begun = Date.now();
  writeFileSync(`${key}.unfinished`, value);
  const hidden = key.replace(/([^/]+)$/, ".$1");
  renameSync(`${key}.unfinished`, hidden);
  renameSync(hidden, key);
  await page.waitForFunction((text) => document.getElementById("canary-state").textContent === text, value, { polling: 10 });
  const took = Date.now() - begun;
  const said = await page.textContent("#said");
  const focus = await page.evaluate(() => document.activeElement.id);
  return { took, said, focus, title: await page.title() };
}

async function main() {
  const log = { requests: [], errors: [] };
  const browser = await playwright.chromium.launch({
    executablePath: chromium,
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
  });
  const seen = { violations: [], overflow: [] };
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1400, 400]) {
      const page = await open(browser, log, { colorScheme, viewport: { width, height: 900 } });
      await page.waitForFunction(() => document.getElementById("live").classList.contains("is-live"));
      for (const details of await page.$$("details:not([open]) > summary")) await details.click();
      for (const one of await violations(page)) seen.violations.push(`${colorScheme} ${width}: ${one}`);
      const wide = await overflow(page);
      if (wide > 0) seen.overflow.push(`${colorScheme} ${width}: ${wide}`);
      await page.context().close();
    }
  }
  const still = await open(browser, log, { javaScriptEnabled: false });
  seen.without_script = await still.innerText("#canary");
  await still.context().close();
  const page = await open(browser, log, {});
  seen.focused = await focused(page, 6);
  seen.live = await follows(page);
  await browser.close();
  seen.elsewhere = log.requests.filter((url) => !url.startsWith(`${base}/`));
  seen.requests = log.requests.length;
  seen.errors = log.errors;
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
