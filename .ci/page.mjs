// Takes the screenshots of `.ci/page`, and runs axe: `node page.mjs URL FOLDER`.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [url, folder] = process.argv.slice(2);
const require = createRequire(resolve(folder, "package.json"));
const puppeteer = await import(require.resolve("puppeteer-core"));
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const launch = puppeteer.launch ?? puppeteer.default.launch.bind(puppeteer.default);
const browser = await launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const wrong = [];
for (const scheme of ["light", "dark"]) {
  for (const [name, width, height] of [["phone", 390, 844], ["desktop", 1280, 800]]) {
    const page = await browser.newPage();
    page.on("request", (request) => {
      if (new URL(request.url()).host !== new URL(url).host) wrong.push(`asks ${request.url()}`);
    });
    page.on("console", (line) => {
      // The browser itself asks for an icon.
      if (line.type() === "error" && !line.location().url.endsWith("/favicon.ico")) wrong.push(line.text());
    });
    await page.setViewport({ width, height });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.goto(url);
    await page.screenshot({ path: `${folder}/${scheme}-${name}.png`, fullPage: true });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    if (wide > width) wrong.push(`${scheme} ${name}: ${wide} pixels wide`);
    await page.evaluate(axe);
    const found = await page.evaluate(() => globalThis.axe.run());
    console.log(`${scheme} ${name}: ${found.passes.length} rules pass, ${found.violations.length} fail, ${found.incomplete.length} undecided`);
    for (const one of [...found.violations, ...found.incomplete]) {
      wrong.push(`${scheme} ${name}: ${one.id}: ${one.help}: ${one.nodes.map((node) => node.html).join(" ")}`);
    }
    if (scheme === "light" && name === "phone") {
      // The script renews the page within its 5 s.
      const before = await page.$eval("main .quiet", (line) => line.textContent);
      await page.waitForFunction((old) => document.querySelector("main .quiet").textContent !== old, { timeout: 15000 }, before);
      console.log("the script renews the page");
    }
    await page.close();
  }
}
await browser.close();
wrong.forEach((line) => console.log(line));
process.exit(wrong.length ? 1 : 0);
