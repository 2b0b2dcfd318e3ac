import { readFileSync } from "node:fs";

// Debian's chromium, driven by puppeteer-core; what goes wrong in the page fails the test.
export async function launch(puppeteer) {
  return puppeteer.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb"],
  });
}

// `address`: what `rrdma inspect` printed, or a file. Resolves when the page is filled.
export async function open(browser, address, { width = 1440, height = 900, scheme = "light" } = {}) {
  const page = await browser.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") page.problems.push(message.text()); });
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  // INSPECTOR_PAGE=dist/inspector.html: that page instead of the one in `rrdma`, while somebody works on it.
  if (process.env.INSPECTOR_PAGE && !address.includes("/captured/")) {
    await page.setRequestInterception(true);
    page.on("request", (request) => request.url() === address ? request.respond({ contentType: "text/html; charset=utf-8", body: readFileSync(process.env.INSPECTOR_PAGE) }) : request.continue());
  }
  await page.goto(/^https?:/.test(address) ? address : `file://${address}`);
  await page.waitForFunction(() => document.documentElement.dataset.ready, { timeout: 60_000 });
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  page.drawn = Date.now();
  // For errors that come later.
  await new Promise((done) => setTimeout(done, 300));
  if (page.problems.length) throw new Error(page.problems.join("\n"));
  return page;
}
