// What the page shows, as JSON on standard output: node test/page.mjs COMMAND ADDRESS [FOLDER]. The judge is
// tests/tools/inspector/inspector_test.py.
import puppeteer from "puppeteer-core";
import { launch, open } from "./browser.mjs";

const [command, address, folder] = process.argv.slice(2);
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// What the ladder has of the connection that it shows.
const ladder = (page) => page.$eval("canvas.ladder", (canvas) => Object.fromEntries(Object.entries(canvas.dataset).map(([name, value]) => [name, Number(value)])));

// Plays the connection or handshake of a tab; what the card says at each of the first packets.
async function walk(page, tab, most) {
  const card = () => page.$eval(".caption", (one) => ({ story: one.querySelector("p").textContent, states: [...one.querySelectorAll(".state-badge")].map((badge) => badge.textContent),
    memory: one.querySelector(".memory b")?.textContent ?? "", where: one.querySelector(".memory .where")?.textContent ?? "",
    octets: one.querySelector(".octets small")?.textContent ?? "", hex: [...one.querySelectorAll(".octets .hex")].map((row) => row.textContent), text: [...one.querySelectorAll(".octets .text")].map((row) => row.textContent) }));
  await page.keyboard.press(tab);
  await wait(300);
  await page.keyboard.press("Home");
  await page.keyboard.press(" ");
  await wait(200);
  await page.keyboard.press(" ");
  // The card asks the server for the bytes of its packet.
  const settled = async () => { await page.waitForNetworkIdle({ idleTime: 120 }); return card(); };
  const steps = [await settled()];
  for (let i = 1; i < most; ++i) { await page.keyboard.press("ArrowDown"); steps.push(await settled()); }
  return steps;
}

// Every width that is looked at, light and dark, in both languages.
const looks = [1400, 900, 420].flatMap((width) => ["light", "dark"].flatMap((scheme) => ["en", "zh"].map((language) => ({ width, scheme, language }))));

const commands = {
  // Counts of the ladder, and the fields of the first problem.
  async counts(page) {
    const counts = await ladder(page);
    await page.keyboard.press("n");
    await page.waitForSelector(".details .fields details, .details .fields .hint:not(:empty)");
    await wait(300);
    const fields = await page.$$eval(".details .fields summary b", (all) => all.map((one) => one.textContent));
    const meaning = await page.$$eval(".details .field p", (all) => all.length);
    await page.keyboard.press("4");
    const problems = await page.$$eval(".problem", (all) => all.map((one) => one.dataset.kind));
    return { counts, fields, meaning, problems };
  },

  // The search for packets, the zoom after a jump, the link to a packet, and the chips of a card. The folder is a filter.
  async find(page) {
    const places = () => page.$eval("canvas.ladder", (canvas) => Number(canvas.dataset.places));
    const seen = {};
    for (const [name, key] of [["next", "n"], ["end", "End"]]) {
      await page.keyboard.press("0");
      await wait(100);
      seen[`all_${name}`] = await places();
      await page.keyboard.press(key);
      await wait(200);
      seen[name] = await places();
    }
    seen.hash = await page.evaluate(() => location.hash);
    await page.focus(".searchbox input");
    await page.keyboard.type(folder);
    await wait(300);
    seen.found = await page.$eval("[data-found]", (one) => Number(one.dataset.found));
    await page.click("li.packet");
    await wait(300);
    seen.chosen = await page.evaluate(() => location.hash);
    seen.status = await page.$eval(".status", (one) => one.textContent);
    await page.$eval(".searchbox input", (one) => { one.value = ""; one.dispatchEvent(new Event("input")); one.blur(); });
    await page.keyboard.press("4");
    await wait(200);
    seen.losses = await page.$$eval("[data-kind=lost] h3", (all) => all.map((one) => one.textContent));
    seen.causes = await page.$$eval("[data-kind=lost] .advice li", (all) => all.map((one) => one.textContent));
    seen.around = await page.$$eval("[data-kind=sequence] .advice li", (all) => all.map((one) => one.textContent));
    seen.chips = await page.$$eval("[data-kind=lost] .chips .chip", (all) => all.length);
    await page.$eval("[data-kind=lost] .chips .more", (one) => one.click());
    seen.opened = await page.$$eval("[data-kind=lost] .chips .chip", (all) => all.length);
    seen.badges = await page.$$eval(".badge.lost", (all) => all.map((one) => Number(one.dataset.losses)));
    return seen;
  },

  // The directions whose round trips are known: their number and values; the others: how many, and why.
  async latency(page) {
    await page.keyboard.press("3");
    await wait(300);
    const texts = (selector) => page.$$eval(selector, (all) => all.map((one) => one.textContent));
    return { measured: (await texts(".figure dl div:first-child dd")).map((text) => Number(text.replace(/\D/g, ""))), values: await texts(".figure dd"), reason: await texts("[data-unknown]"),
      unknown: await page.$$eval("[data-unknown]", (all) => all.map((one) => Number(one.dataset.unknown))) };
  },

  // What programs wrote into the capture, what losses cost, and the fields in Chinese.
  async told(page) {
    const texts = (selector) => page.$$eval(selector, (all) => all.map((one) => one.textContent));
    const seen = { owners: await texts(".sidebar .ends .end span") };
    await page.keyboard.press("n");
    if (!await page.$(".details.open")) await page.keyboard.press("Home");
    await page.waitForSelector(".details .fields details");
    seen.cost = await texts(".details .cost");
    const label = () => page.$eval(".status", (one) => one.textContent);
    seen.relative = await label();
    await page.keyboard.press("4");
    await wait(200);
    seen.repairs = await page.$$eval("[data-kind=lost] .repairs tr[data-by]", (all) => all.map((one) => [one.dataset.by, ...[...one.children].slice(1).map((cell) => cell.textContent)]));
    seen.exact = await texts(".problem .exact");
    seen.causes = await texts(".problem .advice h4");
    await page.keyboard.press("l");
    await wait(200);
    seen.exact_zh = await texts(".problem .exact");
    await page.keyboard.press("1");
    await page.keyboard.press("Home");
    await page.waitForSelector(".details .fields details");
    await wait(300);
    seen.labels_zh = await texts(".details .fields .field .label");
    seen.meanings_zh = await texts(".details .fields p");
    await page.keyboard.press("5");
    await wait(200);
    seen.handshakes = await texts(".handshake small");
    await page.keyboard.press("6");
    await wait(200);
    seen.calls = await texts("[data-call] b");
    seen.waterfalls = await page.$$eval(".waterfall rect", (all) => all.length);
    return seen;
  },

  // The live page in a narrow window: what can be seen or scrolled to.
  async narrow(page, browser) {
    const seen = {};
    for (const { width, scheme, language } of looks) {
      const other = await open(browser, address, { width, height: 800, scheme });
      await other.waitForSelector(".node", { timeout: 20_000 });
      if (language === "zh") await other.keyboard.press("l");
      await wait(900);
      await other.screenshot({ path: `${folder}/live-${width}-${scheme}-${language}.png` });
      if (scheme !== "light" || language !== "en") { await other.close(); continue; }
      seen[width] = await other.evaluate(() => ({ overflow: document.documentElement.scrollWidth > window.innerWidth, legend: [...document.querySelectorAll(".live-legend .key")].map((one) => one.textContent),
        rows: document.querySelectorAll(".pairs tbody tr").length, map: document.querySelector(".map").getBoundingClientRect().height, table: document.querySelector(".pairs").getBoundingClientRect().height,
        side: document.querySelector(".live-side").getBoundingClientRect().height, scrolls: document.querySelector("#app").scrollHeight }));
      if (width === 420) { await other.evaluate(() => document.querySelector(".one").scrollIntoView()); await wait(200); await other.screenshot({ path: `${folder}/live-420-pair.png` }); }
      await other.close();
    }
    return seen;
  },

  // Captures a queue pair from the page and opens the report; then proposes a fault for it.
  async capture(page, browser) {
    await page.waitForSelector(".actions .capture", { timeout: 20_000 });
    await page.$eval(".actions .capture", (one) => one.click());
    const link = await page.waitForSelector(".actions .captured", { timeout: 30_000 });
    const href = await link.evaluate((one) => one.href);
    await page.screenshot({ path: `${folder}/live-captured.png` });
    const report = await open(browser, href);
    const packets = (await ladder(report)).packets;
    const heads = await report.$$eval(".sidebar .ends .end span", (all) => all.map((one) => one.textContent));
    await report.close();
    await page.$eval(".actions .inject", (one) => one.click());
    return { href, packets, heads, proposed: await page.$eval(".faults input", (one) => one.value) };
  },

  // What is said of the first packet that something happened to.
  async marks(page) {
    await page.keyboard.press("n");
    await wait(300);
    const texts = (selector) => page.$$eval(selector, (all) => all.map((one) => one.textContent));
    const counts = await ladder(page), chips = await texts(".details .badge"), legend = await texts(".legend .key");
    if (folder) await page.screenshot({ path: `${folder}/marks.png` });
    await page.keyboard.press("4");
    return { counts, legend, chips, events: await texts("[data-kind=events] li span") };
  },

  // Frames in a second while the wheel turns, near and far.
  async scroll(page) {
    const box = await (await page.$("canvas.ladder")).boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const frames = async () => {
      await page.evaluate(() => {
        const round = window.round = { frames: 0 };
        const next = () => { if (window.round === round) { ++round.frames; requestAnimationFrame(next); } };
        requestAnimationFrame(next);
      });
      const begin = Date.now();
      while (Date.now() - begin < 2000) await page.mouse.wheel({ deltaY: 240 });
      const seconds = (Date.now() - begin) / 1000;
      return await page.evaluate(() => { const { frames } = window.round; window.round = null; return frames; }) / seconds;
    };
    const near = await frames();
    await page.keyboard.press("s");
    const time = await frames();
    await page.keyboard.press("0");
    await page.keyboard.press("+");
    const far = await frames();
    return { near, time, far, counts: await ladder(page) };
  },

  // Whether text of a stranger became code.
  async hostile(page) {
    await page.keyboard.press("n");
    await wait(400);
    for (const key of "123451") { await page.keyboard.press(key); await wait(150); }
    const inserted = await page.evaluate(() => {
      const script = document.createElement("script");
      script.textContent = "window.inserted = true";
      document.body.append(script);
      return Boolean(window.inserted);
    });
    return { hacked: await page.evaluate(() => Boolean(window.hacked)), inserted, images: await page.$$eval("img", (all) => all.length),
      file: await page.$eval(".file b", (one) => one.textContent), problems: page.problems };
  },

  // A handshake and its connection, step by step: what the card says at each packet.
  async play(page) {
    return { handshake: await walk(page, "5", 3), connection: await walk(page, "1", 36) };
  },

  // The first packets of the connection; the folder is their number.
  async steps(page) { return { steps: await walk(page, "1", Number(folder)) }; },

  // Programs that run: says "ready" when two talk and a queue pair is in RTS, then waits for the first failure.
  async live(page) {
    await page.waitForFunction(() => {
      const sender = [...document.querySelectorAll(".pairs tbody tr")].find((row) => row.querySelector(".badge")?.textContent === "RTS");
      if (sender?.getAttribute("aria-selected") === "false") sender.click();
      return document.querySelectorAll(".node").length >= 2 && document.querySelector(".state.RTS.current");
    }, { timeout: 30_000 });
    await page.waitForFunction(() => document.querySelector(".edge.moving"), { timeout: 30_000 });
    const states = await page.$$eval(".state.visited", (all) => all.map((one) => one.dataset.state));
    const walked = await page.$$eval(".way.walked", (all) => all.length);
    await wait(1500);
    const levels = await page.$$eval(".level[data-level]", (all) => Object.fromEntries(all.map((one) => [one.dataset.level, one.querySelector("b").textContent])));
    const boxes = await page.$$eval(".node .things", (all) => all.map((one) => one.textContent));
    await page.screenshot({ path: `${folder}/live.png` });
    console.log("ready");
    const failure = await page.waitForSelector(".errors > .problem.grave", { timeout: 60_000 });
    const told = await failure.evaluate((one) => ({ delay_ms: Number(one.dataset.delayMs), text: one.textContent }));
    // The first card may say that the peer was killed; the requests fail after their retries.
    await page.waitForSelector(".state.visited[data-state=ERR]", { timeout: 20_000 }).catch(() => {});
    await wait(600);
    await page.screenshot({ path: `${folder}/live-failure.png` });
    const afterwards = await page.$$eval(".state.visited", (all) => all.map((one) => one.dataset.state));
    const ended = await page.$$eval(".node.ended", (all) => all.length);
    const said = await page.$$eval(".errors .problem", (all) => all.map((one) => one.textContent).join("\n"));
    return { states, afterwards, walked, levels, boxes, ended, ...told, said };
  },

  // Sets a fault, waits until it is injected, and clears it.
  async fault(page) {
    await page.waitForSelector(".faults input", { visible: true, timeout: 20_000 });
    await page.type(".faults input", "net=drop=5%");
    await page.keyboard.press("Enter");
    const words = await (await page.waitForSelector(".faults li code", { timeout: 10_000 })).evaluate((one) => one.textContent);
    await page.waitForFunction(() => [...document.querySelectorAll(".pairs td.warn")].length > 0, { timeout: 30_000 });
    await page.screenshot({ path: `${folder}/faults.png` });
    const held = await page.$(".faults li button");
    await wait(1500);  // the counts go on meanwhile
    await held.click();
    await page.waitForFunction(() => !document.querySelector(".faults li"), { timeout: 10_000 });
    return { words };
  },

  // Stays open until standard input ends.
  async watch() {
    console.log("ready");
    for await (const _ of process.stdin);
    return {};
  },

  async shots(page, browser) {
    const shot = (name, other = page) => other.screenshot({ path: `${folder}/${name}.png` });
    const press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); await wait(300); };
    await shot("ladder");
    // The picture of the README: the first NAK that arrives.
    for (let tries = 0; tries < 60; ++tries) {
      await press("n");
      if (await page.$eval(".details header", (one) => one.querySelector(".badge.nak") && !one.querySelector(".badge.lost"))) break;
    }
    await shot("problem");
    await press("s");
    await shot("time");
    await press("0");
    await shot("all");
    for (const [key, name] of [["2", "sequence"], ["3", "latency"], ["4", "problems"], ["5", "handshakes"]]) { await press(key); await shot(name); }
    await press("1", "t", "n");
    await shot("dark");
    await press("Home", " ");
    await wait(3500);
    await press(" ");
    await shot("play");
    await press("l");
    await shot("play-chinese");
    for (const { width, scheme, language } of looks) {
      const other = await open(browser, address, { width, height: 800, scheme });
      if (language === "zh") await other.keyboard.press("l");
      await other.keyboard.press("n");
      await wait(500);
      await shot(`ladder-${width}-${scheme}-${language}`, other);
      await other.keyboard.press("4");
      await wait(300);
      await shot(`problems-${width}-${scheme}-${language}`, other);
      await other.close();
    }
    for (const [name, width, height] of [["phone", 360, 720], ["tablet", 820, 1180], ["4k", 3840, 2160]]) {
      const other = await open(browser, address, { width, height });
      await other.keyboard.press("n");
      await wait(500);
      await shot(name, other);
      const overflow = await other.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
      await other.close();
      if (overflow) throw new Error(`${name}: wider than the screen`);
    }
    return {};
  },
};

const browser = await launch(puppeteer);
try {
  const begin = Date.now();
  const page = await open(browser, address);
  const opened_ms = page.drawn - begin;
  const result = await commands[command](page, browser);
  console.log(JSON.stringify({ opened_ms, ...result }));
} finally {
  await browser.close();
}
