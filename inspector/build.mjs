// Makes dist/inspector.html, the one file that is compiled into `rrdma`: script and style are in it, and its
// policy names them by their hashes, so that nothing else can run. With --check: fails unless the committed
// file is what the sources give.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "dist", "inspector.html");

const bundle = await build({
  entryPoints: [join(here, "src", "main.ts")],
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome109", "firefox115", "safari16.4"],
  charset: "utf8",
  legalComments: "none",
  write: false,
});
const script = bundle.outputFiles[0].text.trim();
const style = (await transform(readFileSync(join(here, "src", "style.css"), "utf8"), { loader: "css", minify: true, charset: "utf8" })).code.trim();
if (script.includes("</script") || style.includes("</style")) throw new Error("the code would end its own element");

const hash = (text) => `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;
const policy = [
  "default-src 'none'",
  `script-src ${hash(script)}`,
  `style-src ${hash(style)}`,
  "connect-src 'self'",
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

const page = readFileSync(join(here, "src", "index.html"), "utf8")
  .replace("%POLICY%", () => policy)
  .replace("%STYLE%", () => style)
  .replace("%SCRIPT%", () => script);

if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== page) {
    console.error("dist/inspector.html is not what the sources give: run `npm ci && npm run build` in inspector/ and commit it");
    process.exit(1);
  }
} else {
  writeFileSync(target, page);
  console.log(`dist/inspector.html: ${Buffer.byteLength(page)} octets`);
}
