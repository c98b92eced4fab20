// The daily tasks of docs/operating.md on the page, in the order that they stand there.
// node daily.js HOST:PORT CHROMIUM TASKS: a JSON array of those that the document says can be done on the page

const assert = require("node:assert/strict");
const { run } = require("./browser.js");

run(async ({ page, wrong, api, go, done, cells }, listed) => {
  const press = (name) => page.locator("main").getByRole("button", { name, exact: true }).first().click();
  const follow = (name) => page.locator("main").getByRole("link", { name, exact: true }).first().click();
  const row = (text) => page.locator("tbody tr", { hasText: text }).first();
  /** Fills the dialog that is open and sends it off. */
  const answer = async (fields, said) => {
    const dialog = page.locator("dialog");
    await dialog.waitFor();
    for (const [name, value] of Object.entries(fields)) {
      const field = dialog.locator(`[name="${name}"]`);
      if (await field.evaluate((one) => one.tagName === "SELECT")) await field.selectOption(value);
      else await field.fill(value);
    }
    await dialog.locator("button[type=submit]").click();
    await done(said);
    await dialog.waitFor({ state: "detached" });
  };
  const shows = (text) => page.locator("main", { hasText: text }).waitFor();
  const topic = async (path = "orders") => (await api(`/topics/${path}`)).body;
  const group = async () => (await api("/groups/billing")).body;
  const post = (to, body) => api(to, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  /** What others would have done by then. */
  const elsewhere = async (to, body) => {
    const answered = await post(to, body);
    assert.equal(answered.status, 200, `${to}: ${JSON.stringify(answered.body)}`);
  };

  const reset = async (fields, said) => {
    await go("groups/billing", "main button");
    await press("Reset…");
    await page.locator(".preview table").waitFor();
    await answer({ topic: "orders", ...fields }, said);
  };

  const tasks = {
    "make a topic": async () => {
      await go("topics", "main button");
      await press("Make a topic");
      await answer({ name: "orders", queues: "4" }, "Topic orders is made");
      assert.equal((await topic()).write_queues, 4);
    },
    "give it more queues": async () => {
      await go("topics/orders", "main button");
      await press("Alter…");
      await answer({ queues: "8" }, "is altered");
      assert.equal((await topic()).write_queues, 8);
    },
    "see which topics there are, and how much is in each": async () => {
      await go("topics", "tbody tr");
      assert.ok((await cells()).some(([name, messages]) => name === "orders" && messages === "0"));
    },
    "send a message by hand": async () => {
      await go("topics/orders", "main button");
      await press("Send a message…");
      await answer({ body: "hello\nworld", key: "4711", tag: "paid", queue: "0" }, "Sent: queue 0, offset 0");
      const { items } = (await api("/topics/orders/messages?key=4711")).body;
      assert.equal(Buffer.from(items[0].body_base64, "base64").toString(), "hello\nworld");
      assert.equal(items[0].properties.TAGS, "paid");
    },
    "look at what is in a topic": async () => {
      await go("topics/orders", "main .button");
      await follow("Look at messages");
      await shows("hello");
    },
    "see a topic's queues, and who reads it": async () => {
      await go("topics/orders", "tbody tr");
      assert.equal((await cells()).length, 8);
      await page.locator("main").getByRole("link", { name: "billing" }).waitFor();
    },
    "find a message by its key": async () => {
      await go("messages", "form.search");
      await page.locator("[name=topic]").fill("orders");
      await page.locator("[name=way]").selectOption("key");
      await page.locator("[name=text]").fill("4711");
      await press("Find");
      await page.locator("pre.body", { hasText: "hello" }).waitFor();
    },
    "see a whole message": async () => {
      const { items: [{ id }] } = (await api("/topics/orders/messages?key=4711")).body;
      await go("messages", "form.search");
      await page.locator("[name=topic]").fill("orders");
      await page.locator("[name=way]").selectOption("id");
      await page.locator("[name=text]").fill(id);
      await press("Find");
      await page.locator(".message", { hasText: "KEYS" }).waitFor();
    },
    "see how much came in the last ten minutes": async () => {
      await go("topics/orders", ".since");
      await shows("1 message.");
    },
    "see who is behind": async () => {
      await go("groups", "tbody tr");
      assert.deepEqual((await cells())[0].slice(0, 2), ["billing", "1"]);
    },
    "see where a group is behind, and who is in it": async () => {
      await go("groups/billing", "tbody tr");
      await row("orders").waitFor();
      await shows("Nobody is connected");
    },
    "skip a bad message": async () => {
      await reset({ to: "offset", offset: "1", queue: "0" }, "goes on elsewhere");
      assert.equal((await group()).lag, 0);
    },
    "see where a replay would begin": async () => {
      await go("groups/billing", "main button");
      await press("Reset…");
      await page.locator("dialog [name=to]").selectOption("first");
      await page.locator(".preview", { hasText: "1 message would come again" }).waitFor();
      await page.keyboard.press("Escape");
      assert.equal((await group()).lag, 0);
    },
    "replay two hours": async () => {
      await reset({ to: "time", time: new Date(Date.now() - 7200e3).toISOString().slice(0, 19) }, "goes on elsewhere");
      assert.equal((await group()).lag, 1);
    },
    "look at dead letters": async () => {
      await elsewhere("/topics", { name: "%DLQ%billing", queues: 1 });
      await elsewhere("/topics/%25DLQ%25billing/messages", { body: "dead" });
      await go("groups/billing", "main button");
      await follow("Look at dead letters");
      await shows("dead");
    },
    "count what would be resent": async () => {
      await go("groups/billing", "main button");
      await press("Resend dead letters…");
      await page.locator(".preview", { hasText: "1 dead letter would be resent" }).waitFor();
    },
    "resend dead letters": async () => {
      await answer({}, "1 dead letter resent");
      assert.equal((await group()).dead_letters_not_resent, 0);
    },
    "copy a message to another topic": async () => {
      await elsewhere("/topics", { name: "orders-again" });
      await go("messages?topic=orders&way=key&text=4711", "pre.body");
      await press("Copy to a topic…");
      await answer({ to: "orders-again" }, "Copied to orders-again");
      assert.equal((await topic("orders-again")).queues.reduce((sum, { messages }) => sum + messages, 0), 1);
    },
    "stop writes to a topic": async () => {
      await go("topics/orders", "main button");
      await press("Alter…");
      await answer({ permission: "r" }, "is altered");
      assert.equal((await topic()).permission, "r");
      assert.match((await post("/topics/orders/messages", { body: "late" })).body.error, /forbidden/);
    },
    "remove a group": async () => {
      await go("groups/billing", "main button");
      await press("Remove the group…");
      await answer({}, "is removed");
      assert.equal((await api("/groups/billing")).status, 404);
    },
    "remove a topic": async () => {
      await go("topics/orders-again", "main button");
      await press("Remove the topic…");
      await answer({}, "is removed");
      assert.equal((await api("/topics/orders-again")).status, 404);
    },
    "see whether brokers are well, and how fast": async () => {
      await go("brokers", "main .mark.good");
      await shows("Messages in");
    },
    "see a broker's slaves, and how far they are behind": () => shows("No slave is connected"),
    "change a setting until the next start": async () => {
      await go("settings", "tbody tr");
      await press("Change retention.age");
      await answer({ value: "48h" }, "retention.age is changed");
      assert.equal((await api("/settings")).body.items.find(({ name }) => name === "retention.age").value, "48h");
    },
    "see what differs from the defaults, and why": async () => {
      await go("settings", "tbody tr");
      await page.getByLabel("Changed ones alone").check();
      assert.ok((await cells()).every((one) => one[2] !== "default"));
      await row("retention.age").waitFor();
    },
    "have producers go elsewhere before a stop": async () => {
      await go("brokers", "main button");
      await press("Have producers go elsewhere");
      await page.locator(".mark", { hasText: "producers go elsewhere" }).waitFor();
    },
    "let them come back": async () => {
      await press("Let producers come back");
      await page.locator(".mark", { hasText: "producers go elsewhere" }).waitFor({ state: "detached" });
    },
    "make a virtual host": async () => {
      await go("access", "tbody tr");
      await press("Make a virtual host");
      await answer({ name: "/shop" }, "Virtual host /shop is made");
    },
    "make a user": async () => {
      await press("Make a user");
      await answer({ name: "alice", password: "secret" }, "User alice is made");
    },
    "let a user in": async () => {
      await press("Let a user in");
      await answer({ user: "alice", vhost: "/shop" }, "alice is let into /shop");
      const { items } = (await api("/permissions")).body;
      assert.deepEqual(items.find(({ user }) => user === "alice"), { user: "alice", vhost: "/shop", configure: ".*", write: ".*", read: ".*" });
    },
    "make an exchange": async () => {
      await go("exchanges/%2Fshop", "tbody tr");
      await press("Make an exchange");
      await answer({ name: "events", type: "topic" }, "Exchange events is made");
    },
    "make a queue": async () => {
      await go("queues/%2Fshop", "main button");
      await press("Make a queue");
      await answer({ name: "work", arguments: '{"x-max-length": 1000000}' }, "Queue work is made");
      assert.equal((await api("/vhosts/%2Fshop/queues/work")).body.arguments["x-max-length"], 1000000);
    },
    "bind it": async () => {
      await go("exchanges/%2Fshop", "tbody tr");
      await press("Make a binding");
      await answer({ source: "events", destination: "work", key: "order.*" }, "work is bound to events");
      assert.ok((await api("/vhosts/%2Fshop/bindings")).body.items.some(({ source, key }) => source === "events" && key === "order.*"));
    },
    "let a user publish by some keys alone": async () => {
      await go("access", "tbody tr");
      await press("Restrict a user");
      await answer({ user: "alice", vhost: "/shop", exchange: "events", write: "^{username}\\." }, "alice is restricted");
      assert.equal((await api("/topic-permissions")).body.items[0].write, "^{username}\\.");
    },
    "limit what a user may have open": async () => {
      await row("alice").getByRole("button", { name: "limits…" }).click();
      await answer({ connections: "10" }, "alice has other limits");
      assert.equal((await api("/users")).body.items.find(({ name }) => name === "alice").connections_max, 10);
    },
    "see who is connected": async () => {
      await go("connections", "main input");
      await shows("No client is connected");
    },
    "see which queues are long, and who consumes": async () => {
      await go("queues/%2Fshop", "tbody tr");
      assert.deepEqual((await cells())[0].slice(0, 4), ["work", "0", "0", "0"]);
    },
    "drop what is in a queue": async () => {
      await follow("work");
      await page.getByRole("heading", { name: "work" }).waitFor();
      await press("Purge…");
      await answer({}, "0 messages dropped");
    },
  };

  assert.deepEqual(Object.keys(tasks), JSON.parse(listed), "tasks of the document, and those that are done here");
  for (const [task, act] of Object.entries(tasks)) {
    try {
      await act();
    } catch (error) {
      error.message = `${task}: ${error.message}`;
      throw error;
    }
    // As a consumer that came and has not consumed yet.
    if (task === "look at what is in a topic") {
      await elsewhere("/groups/billing/reset", { topic: "orders", to: "first" });
    }
  }
  assert.deepEqual(wrong.filter((text) => !/40[49] \(/.test(text)), []);
  console.log("all tasks are done");
});
