// The page in a real browser: what it shows is what the API says, names are text, keys work, what is done on it is done.
// node check.js HOST:PORT CHROMIUM

const assert = require("node:assert/strict");
const { run } = require("./browser.js");

const MARKUP = "<img src=x onerror=window.caught=1>";
const KEY = "<img/src=x/onerror=window.caught=1>";

const number = (text) => Number(text.replace(/[^0-9]/g, ""));

run(async ({ page, wrong, api, go, done, cells }) => {
  await go("", "h1.good");
  assert.equal(await page.locator("h1").innerText(), "Well");
  await page.waitForFunction(() => document.querySelectorAll(".plot canvas").length === 6);
  const { body: brokers } = await api("/brokers");
  await page.getByRole("link", { name: brokers.items[0].name }).waitFor();
  await page.locator("section.card", { hasText: "Furthest behind" }).getByRole("link", { name: "billing" }).waitFor();

  await go("topics", "tbody tr");
  const { body: topics } = await api("/topics?count=50&sort=name");
  assert.deepEqual((await cells()).map(([name, messages]) => [name.replace(/ system$/, ""), number(messages)]),
    topics.items.map(({ name, messages }) => [name, messages]));

  await go("groups", "tbody tr");
  const { body: groups } = await api("/groups?sort=-lag");
  assert.ok(groups.items.some(({ lag }) => lag > 0));
  assert.deepEqual((await cells()).map(([name, lag]) => [name, number(lag)]), groups.items.map(({ name, lag }) => [name, lag]));

  await go("settings", "tbody tr");
  const { body: settings } = await api("/settings");
  assert.equal((await cells()).length, settings.items.length);

  const post = (path, body) => api(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

  // Markup in names, keys, properties and bodies is text.
  await go("queues", "tbody tr");
  assert.ok((await cells()).some(([name]) => name === MARKUP));
  await page.getByRole("link", { name: MARKUP }).click();
  await page.getByRole("heading", { name: MARKUP }).waitFor();
  await go("exchanges", "tbody tr");
  assert.ok((await cells()).some(([name]) => name === MARKUP));
  await go(`messages?topic=orders&way=key&text=${encodeURIComponent(KEY)}`, "pre.body");
  assert.equal(await page.locator("pre.body").innerText(), MARKUP);
  assert.ok((await page.locator(".message").innerText()).includes(KEY));
  await go(`groups/${encodeURIComponent(MARKUP)}`, "main .problem:not(:empty)");
  await go("connections", "h1");
  await page.waitForTimeout(300);
  assert.equal(await page.evaluate(() => window.caught), undefined);
  assert.equal(await page.locator("main img").count(), 0);

  // Whoever follows a link by keyboard goes on in what it leads to.
  await go("topics", "tbody tr");
  await page.locator("tbody a", { hasText: "orders" }).first().focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash === "#/topics/orders" && document.activeElement.id === "main");

  // Each list of a page keeps its own order, and has it again when the page is loaded again.
  await go("access", "tbody tr");
  const permissions = page.locator("section.card", { hasText: "Let a user in" });
  await permissions.getByRole("button", { name: "Virtual host" }).click();
  await permissions.locator("th[aria-sort]", { hasText: "Virtual host" }).waitFor();
  await page.reload();
  await permissions.locator("th[aria-sort]", { hasText: "Virtual host" }).waitFor();
  await page.locator("section.card", { hasText: "Make a user" }).locator("tbody tr").first().waitFor();
  assert.deepEqual(await page.locator(".problem:not(:empty)").allInnerTexts(), []);

  // Keys: `/` goes to the search, and what is typed is searched for by the broker.
  await go("topics", "tbody tr");
  await page.keyboard.press("/");
  await page.keyboard.type("ORDERS");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
  assert.equal((await cells())[0][0], "orders");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Make a topic");

  // A topic made and removed, by keys alone; the second asks first.
  await page.keyboard.press("Enter");
  await page.keyboard.type("made-here");
  await page.keyboard.press("Enter");
  await done("is made");
  assert.equal((await api("/topics/made-here")).body.write_queues, 8);
  await go("topics/made-here", "button.danger");
  await page.locator("main button.danger").click();
  await page.locator("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.equal((await api("/topics/made-here")).status, 200);
  await page.locator("main button.danger").click();
  await page.locator("dialog button.danger").click();
  await done("is removed");
  // The page goes to the list then, by itself.
  await page.waitForFunction(() => location.hash === "#/topics");
  assert.equal((await api("/topics/made-here")).status, 404);

  // Passwords and bodies go out as they were typed, names without the spaces around them.
  const sent = page.waitForRequest((request) => request.method() === "POST");
  await go("access", "main button");
  await page.getByRole("button", { name: "Make a user" }).click();
  await page.locator("dialog [name=name]").fill(" dave ");
  await page.locator("dialog [name=password]").fill(" secret ");
  await page.locator("dialog button[type=submit]").click();
  await done("User dave is made");
  const { name, password } = (await sent).postDataJSON();
  assert.deepEqual([name, password], ["dave", " secret "]);
  await go("topics/orders", "main button");
  await page.getByRole("button", { name: "Send a message…" }).click();
  await page.locator("dialog [name=body]").fill("  indented\n");
  await page.locator("dialog [name=key]").fill("typed");
  await page.locator("dialog button[type=submit]").click();
  await done("Sent");
  const { body: typed } = await api("/topics/orders/messages?key=typed");
  assert.equal(atob(typed.items[0].body_base64), "  indented\n");

  // JSON is laid out, and is what is stored: large numbers, noughts at their end, keys that come twice.
  await post("/topics/orders/messages", { body: '{"order":9007199254740993,"price":1.10,"a":[],"a":["b, {c}"]}', key: "json" });
  await go("messages?topic=orders&way=key&text=json", "pre.body");
  assert.equal(await page.locator("pre.body").textContent(), '{\n  "order": 9007199254740993,\n  "price": 1.10,\n  "a": [],\n  "a": [\n    "b, {c}"\n  ]\n}');

  // What has the focus keeps it when rows come in and figures change.
  await go("access", "tbody tr");
  await page.locator("tr", { hasText: "guest" }).first().getByRole("button", { name: "remove…" }).focus();
  await post("/users", { name: "a-first", password: "secret" });
  await page.locator("tr", { hasText: "a-first" }).waitFor();
  const focused = () => page.evaluate(() => [document.activeElement.closest("tr")?.cells[0].textContent, document.activeElement.textContent]);
  assert.deepEqual(await focused(), ["guest", "remove…"]);
  await go("topics/orders", "main button");
  await page.getByRole("button", { name: "Alter…" }).focus();
  const figures = await page.locator(".facts").innerText();
  await post("/topics/orders/messages", { body: "one more" });
  await page.waitForFunction((before) => document.querySelector(".facts")?.innerText !== before, figures);
  assert.equal((await focused())[1], "Alter…");
  const orders = /\/admin\/v1\/topics\/orders$/;
  await page.route(orders, (route) => route.abort());
  await page.locator("main .problem", { hasText: "The broker does not answer" }).waitFor();
  assert.equal((await focused())[1], "Alter…");
  await page.unroute(orders);

  // Browsers take `.` and `..` out of paths; as names they work like others.
  for (const name of [".", ".."]) {
    await post("/vhosts/%2F/queues", { name });
    await go(`queues/%2F/${name}`, "main button");
    await page.getByRole("button", { name: "Remove the queue…" }).click();
    await page.locator("dialog button.danger").click();
    await done(`Queue ${name} is removed`);
    await page.waitForFunction(() => location.hash === "#/queues/%2F");
  }

  // A virtual host that is not there is said to be none, and others can be chosen.
  await go("queues/gone", ".notice");
  assert.ok((await page.locator(".notice").innerText()).startsWith("There is no virtual host “gone”"));
  await page.getByLabel("Virtual host").selectOption("/");
  await page.waitForFunction(() => location.hash === "#/queues/%2F");
  await page.locator("tbody tr").first().waitFor();

  // What fails before there is a question is told too.
  await go("access", "tbody tr");
  const vhosts = /\/admin\/v1\/vhosts/;
  await page.route(vhosts, (route) => route.abort());
  await page.getByRole("button", { name: "Let a user in" }).click();
  await done("The broker does not answer");
  await page.unroute(vhosts);

  // Messages of a time are looked for in all queues.
  await post("/topics", { name: "wide", queues: 18 });
  for (let queue = 0; queue < 18; queue += 1) await post("/topics/wide/messages", { body: String(queue), queue });
  await go("messages?topic=wide&way=time&time=2020-01-01T00:00:00", "tbody tr");
  assert.deepEqual((await cells()).map(([, queue]) => Number(queue)), Array.from({ length: 18 }, (_, queue) => queue));

  // A reset shows where it would lead before it is done.
  await go("groups/billing", "main button");
  await page.getByRole("button", { name: "Reset…" }).click();
  await page.locator(".preview table").waitFor();
  assert.ok((await api("/groups/billing")).body.lag > 0, "a look changes nothing");
  await page.getByRole("button", { name: "Reset it" }).click();
  await done("goes on elsewhere");
  assert.equal((await api("/groups/billing")).body.lag, 0);

  // Nothing wider than a narrow window, whatever the page.
  await page.setViewportSize({ width: 400, height: 800 });
  for (const hash of ["", "topics", "groups/billing", "messages", "queues", "settings"]) {
    await go(hash, "h1");
    await page.waitForTimeout(200);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${hash} is too wide`);
  }

  // A token that is wrong is asked for again, and none where nobody wants to give it.
  await go("topics", "tbody tr");
  const pages = /\/admin\/v1\//;
  await page.route(pages, (route) => route.request().headers().authorization === "Bearer right"
    ? route.continue() : route.fulfill({ status: 401, json: { error: "show the token" } }));
  const give = async (token) => {
    await page.waitForFunction(() => document.querySelector("dialog input")?.value === "");
    await page.locator("dialog input").fill(token);
    await page.locator("dialog button[type=submit]").click();
  };
  await page.reload();
  await give("wrong");
  await give("€");
  await page.locator("dialog .problem", { hasText: "This is no token" }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator("main .problem", { hasText: "without the token" }).waitFor();
  await page.waitForTimeout(3000);
  assert.equal(await page.locator("dialog").count(), 0);
  await page.reload();
  await give("right");
  await page.locator("tbody tr").first().waitFor();
  await page.unroute(pages);

  // A page of somebody else changes nothing.
  const forged = await api("/topics", { method: "POST", headers: { "content-type": "application/json", origin: "http://evil.example" }, body: "{\"name\":\"forged\"}" });
  assert.equal(forged.status, 403);
  const plain = await api("/topics", { method: "POST", headers: { "content-type": "text/plain" }, body: "{\"name\":\"forged\"}" });
  assert.equal(plain.status, 415);

  const expected = /404 \(Not Found\)|401 \(Unauthorized\)|net::ERR_FAILED/;
  assert.deepEqual(wrong.filter((text) => !expected.test(text)), []);
  console.log("the page is right");
});
