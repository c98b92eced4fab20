// A headless browser with the page open in it, and what tests of the page have in common.

const { chromium } = require("playwright-core");

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

/** Opens a browser. `wrong` gets what the page complains of, and what it asks of others. */
async function open(address, executablePath) {
  const base = `http://${address}`;
  const browser = await chromium.launch({ executablePath, args: FLAGS });
  const page = await browser.newPage();
  const wrong = [];
  page.on("console", (message) => { if (message.type() === "error") wrong.push(message.text()); });
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("request", (request) => { if (!request.url().startsWith(base) && !request.url().startsWith("data:")) wrong.push(`asks ${request.url()}`); });

  return {
    browser, page, wrong,
    /** Asks the admin API itself. */
    async api(path, options) {
      const response = await fetch(`${base}/admin/v1${path}`, options);
      return { status: response.status, body: await response.json() };
    },
    /** Shows a part of the page, and waits for something in it. */
    async go(hash, ready) {
      await page.goto(`${base}/#/${hash}`);
      await page.locator(ready).first().waitFor();
    },
    /** Waits for what the page says of the action that was just done. */
    done: (text) => page.locator(".toast", { hasText: text }).waitFor(),
    /** The texts of all cells of the first table. */
    cells: () => page.locator("tbody tr").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))),
  };
}

/** Runs a test, and tells its end as whoever started it expects. */
function run(test) {
  const [address, executablePath, ...rest] = process.argv.slice(2);
  const whole = async () => {
    const opened = await open(address, executablePath);
    await test(opened, ...rest);
    await opened.browser.close();
  };
  whole().catch((error) => { console.error(error); process.exit(1); });
}

module.exports = { run };
