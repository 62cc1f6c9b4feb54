// Takes the screenshots of `.ci/page`, and runs axe: `node page.mjs URL PREFIX [picture]`. For the picture of the README
// there is one of the upper part only, and nothing is examined.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, resolve } from "node:path";

const [url, prefix, picture] = process.argv.slice(2);
const require = createRequire(resolve("target/page/package.json"));
const puppeteer = await import(require.resolve("puppeteer-core"));
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const launch = puppeteer.launch ?? puppeteer.default.launch.bind(puppeteer.default);
const browser = await launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const wrong = [];

async function open(scheme, width, height) {
  const page = await browser.newPage();
  page.on("request", (request) => {
    if (new URL(request.url()).host !== new URL(url).host) wrong.push(`asks ${request.url()}`);
  });
  page.on("console", (line) => {
    // The browser itself asks for an icon.
    if (line.type() === "error" && !line.location().url.endsWith("/favicon.ico")) wrong.push(line.text());
  });
  page.on("pageerror", (error) => wrong.push(error.message));
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(url);
  return page;
}

/// The script renews the page within its 5 s, and leaves open what was open, with the focus where it was.
async function renews(page) {
  const summary = "section:last-of-type summary";
  await page.click(summary);
  const state = () => page.evaluate((at) => {
    const one = document.querySelector(at);
    return [one.parentNode.open, document.activeElement === one].join();
  }, summary);
  const before = await state();
  const old = await page.$eval("main .quiet", (line) => line.textContent);
  await page.waitForFunction((old) => document.querySelector("main .quiet").textContent !== old, { timeout: 15000 }, old);
  const after = await state();
  if (after !== before || !after.endsWith("true")) wrong.push(`renewed: ${before} became ${after}`);
  console.log("the script renews the page");
}

/// The button copies the command beside it, and says so.
async function copies(page) {
  // What a person in front of the browser may do.
  const allowed = ["clipboard-read", "clipboard-write", "clipboard-sanitized-write"];
  await page.browserContext().overridePermissions(new URL(url).origin, allowed);
  await page.bringToFront();
  await page.click("main button");
  await page.waitForFunction(() => document.querySelector("[role=status]").textContent === "Copied.");
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  const wanted = await page.$eval(".copy", (code) => code.textContent);
  if (copied !== wanted || !wanted.startsWith("kubectl ")) wrong.push(`copied ${copied} for ${wanted}`);
  console.log("the button copies the command");
}

async function examine(scheme, name, width, height) {
  const what = `${basename(prefix)} ${scheme} ${name}`;
  const page = await open(scheme, width, height);
  await page.screenshot({ path: `${prefix}-${scheme}-${name}.png`, fullPage: true });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  if (wide > width) wrong.push(`${what}: ${wide} pixels wide`);
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run());
  console.log(`${what}: ${found.passes.length} rules pass, ${found.violations.length} fail, ${found.incomplete.length} undecided`);
  for (const one of [...found.violations, ...found.incomplete]) {
    wrong.push(`${what}: ${one.id}: ${one.help}: ${one.nodes.map((node) => node.html).join(" ")}`);
  }
  if (prefix.endsWith("idle") && scheme === "light" && name === "phone") await renews(page);
  if (prefix.endsWith("failing-proof") && scheme === "light" && name === "desktop") await copies(page);
  await page.close();
}

for (const scheme of ["light", "dark"]) {
  if (picture) {
    const page = await open(scheme, 960, 432);
    await page.screenshot({ path: `${prefix}-${scheme}.png` });
    await page.close();
  } else {
    await examine(scheme, "phone", 390, 844);
    await examine(scheme, "desktop", 1280, 800);
  }
}
await browser.close();
wrong.forEach((line) => console.log(line));
process.exit(wrong.length ? 1 : 0);
