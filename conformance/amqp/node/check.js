// Checks with amqplib what RabbitMQ's users count on: PORT. Says which promise does not hold, and ends with 1 then.

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const amqp = require('amqplib');

const PORT = process.argv[2];
const LIMIT_MS = 10_000;

const connect = () => amqp.connect(`amqp://guest:guest@127.0.0.1:${PORT}/?heartbeat=10`);

/** Fails if `promise` takes too long. */
async function soon(promise, what) {
  const late = new AbortController();
  const limit = sleep(LIMIT_MS, null, { signal: late.signal }).then(() => assert.fail(`${what} took longer than ${LIMIT_MS} ms`));
  try {
    return await Promise.race([promise, limit]);
  } finally {
    late.abort();
    limit.catch(() => {});
  }
}

/** The next message, which may take a moment to come there. */
async function take(channel, queue, options = { noAck: true }) {
  for (const end = Date.now() + LIMIT_MS; Date.now() < end; await sleep(10)) {
    const message = await channel.get(queue, options);
    if (message) return message;
  }
  assert.fail(`nothing came into ${queue} within ${LIMIT_MS} ms`);
}

/** Consumes; `next()` is what comes next. */
async function consume(channel, queue, options) {
  const [come, wanted] = [[], []];
  const { consumerTag } = await channel.consume(queue, (message) => (wanted.length ? wanted.shift()(message) : come.push(message)), options);
  const next = () => soon(come.length ? Promise.resolve(come.shift()) : new Promise((give) => wanted.push(give)), `a message of ${queue}`);
  return { consumerTag, come, next };
}

const confirmed = (channel, exchange, key, body, options) =>
  new Promise((give) => channel.publish(exchange, key, Buffer.from(body), options, (error) => give(error === null)));

const promises = {
  async inOrderWithConfirmsAndPrefetch(channel) {
    await channel.assertQueue('ordered', { durable: true });
    const sent = Array.from({ length: 2000 }, (_, number) => String(number));
    for (const body of sent) channel.sendToQueue('ordered', Buffer.from(body), { persistent: true });
    await channel.waitForConfirms();
    await channel.prefetch(50);
    const { come, next } = await consume(channel, 'ordered');
    const first = await next();
    await sleep(200);
    assert.equal(come.length, 49, 'as many as are not acknowledged may be on their way');
    const got = [];
    for (let message = first; ; message = await next()) {
      got.push(message.content.toString());
      channel.ack(message);
      if (got.length === sent.length) break;
    }
    assert.deepEqual(got, sent);
    await channel.recover();
    assert.equal((await channel.checkQueue('ordered')).messageCount, 0, 'all are acknowledged');
  },

  async propertiesAndLargeBodiesAsTheyWere(channel) {
    await channel.assertQueue('properties');
    const body = Buffer.alloc(1_000_000, 'grüße ');
    const headers = {
      text: 'grüße', number: -7, large: 2 ** 40, part: 1.5, yes: true, nothing: null, list: [1, 'two', { three: 3 }],
      bytes: Buffer.from([0, 255]), at: { '!': 'timestamp', value: 1_700_000_000 },
    };
    const sent = {
      contentType: 'a', contentEncoding: 'b', deliveryMode: 1, priority: 3, correlationId: 'c', replyTo: 'd', expiration: '60000',
      messageId: 'e', timestamp: 1_700_000_000, type: 'f', userId: 'guest', appId: 'g', headers,
    };
    channel.sendToQueue('properties', body, sent);
    const { properties, content, fields } = await take(channel, 'properties');
    assert.ok(content.equals(body));
    assert.deepEqual({ ...properties }, { ...sent, clusterId: undefined });
    assert.equal(fields.redelivered, false);
  },

  async returnedAndRefused(channel) {
    const returned = once(channel, 'return');
    assert.ok(await confirmed(channel, '', 'nobody', 'lost', { mandatory: true, messageId: 'm' }), 'a returned one is confirmed');
    const [message] = await soon(returned, 'the return');
    assert.equal(message.fields.replyCode, 312);
    assert.equal(message.fields.replyText, 'NO_ROUTE');
    assert.deepEqual([message.properties.messageId, message.content.toString()], ['m', 'lost']);
    await channel.assertQueue('small', { maxLength: 1, overflow: 'reject-publish' });
    assert.deepEqual([await confirmed(channel, '', 'small', 'a'), await confirmed(channel, '', 'small', 'b')], [true, false]);
  },

  async givenBackComesAgainAtItsPlace(channel, connection) {
    await channel.assertQueue('again');
    for (const body of '012345') await confirmed(channel, '', 'again', body);
    const other = await connection.createChannel();
    const held = [];
    for (let count = 0; count < 6; count++) held.push(await take(other, 'again', {}));
    other.ack(held[1], true);
    other.nack(held[3], true, true);
    other.reject(held[4], false);
    await other.close();
    const left = [];
    for (let count = 0; count < 3; count++) left.push(await take(channel, 'again'));
    assert.deepEqual(left.map(({ content, fields }) => [content.toString(), fields.redelivered]), [['2', true], ['3', true], ['5', true]]);
    assert.equal((await channel.checkQueue('again')).messageCount, 0);
  },

  async deadLettersSayWhatBecameOfThem(channel) {
    await channel.assertExchange('graveyard', 'fanout');
    await channel.assertQueue('dead');
    await channel.bindQueue('dead', 'graveyard', '');
    await channel.assertQueue('mortal', { deadLetterExchange: 'graveyard', deadLetterRoutingKey: 'gone', messageTtl: 150, maxLength: 2 });
    const rejecting = await consume(channel, 'mortal');
    await confirmed(channel, '', 'mortal', 'rejected', { headers: { own: 1 }, expiration: '9000' });
    channel.nack(await rejecting.next(), false, false);
    await channel.cancel(rejecting.consumerTag);
    for (const body of ['first', 'second', 'third']) await confirmed(channel, '', 'mortal', body);
    const reasons = {};
    for (let count = 0; count < 4; count++) {
      const { content, fields, properties } = await take(channel, 'dead');
      const [death] = properties.headers['x-death'];
      assert.deepEqual([fields.exchange, fields.routingKey, properties.expiration], ['graveyard', 'gone', undefined]);
      assert.deepEqual([death.queue, death.exchange, death['routing-keys'], death.count], ['mortal', '', ['mortal'], 1]);
      assert.equal(properties.headers['x-first-death-queue'], 'mortal');
      assert.equal(properties.headers['x-first-death-reason'], death.reason);
      assert.equal(typeof death.time.value, 'number');
      assert.equal(death['original-expiration'], content.toString() === 'rejected' ? '9000' : undefined);
      reasons[content] = death.reason;
    }
    assert.deepEqual(reasons, { rejected: 'rejected', first: 'maxlen', second: 'expired', third: 'expired' });
  },

  async aRetryByDeathsCountsThem(channel) {
    await channel.assertQueue('work', { deadLetterExchange: '', deadLetterRoutingKey: 'later' });
    await channel.assertQueue('later', { deadLetterExchange: '', deadLetterRoutingKey: 'work', messageTtl: 50 });
    await confirmed(channel, '', 'work', 'tried');
    const { next } = await consume(channel, 'work');
    const counts = [];
    for (let tries = 0; tries < 4; tries++) {
      const message = await next();
      const deaths = message.properties.headers['x-death'] ?? [];
      counts.push(deaths.map(({ queue, reason, count }) => `${queue} ${reason} ${count}`));
      tries < 3 ? channel.reject(message, false) : channel.ack(message);
    }
    const after = (count) => [`later expired ${count}`, `work rejected ${count}`];
    assert.deepEqual(counts, [[], after(1), after(2), after(3)]);
  },

  async timesToLive(channel) {
    await channel.assertQueue('brief', { expires: 300 });
    await channel.assertQueue('slow');
    await confirmed(channel, '', 'slow', 'gone', { expiration: '100' });
    await confirmed(channel, '', 'slow', 'stays');
    await sleep(700);
    assert.equal((await take(channel, 'slow')).content.toString(), 'stays');
    await refused(404, (other) => other.checkQueue('brief'));
  },

  async theMostUrgentFirst(channel) {
    await channel.assertQueue('urgent', { maxPriority: 5 });
    for (const priority of [0, 1, 5, 3, 9, 1]) await confirmed(channel, '', 'urgent', String(priority), { priority });
    const got = [];
    for (let count = 0; count < 6; count++) got.push((await take(channel, 'urgent')).content.toString());
    assert.deepEqual(got, ['5', '9', '3', '1', '1', '0']);
  },

  async exchangesOfEveryType(channel) {
    await channel.assertExchange('other', 'fanout', { internal: true });
    await channel.assertExchange('by-topic', 'topic', { alternateExchange: 'other' });
    await channel.assertExchange('by-headers', 'headers');
    await channel.bindExchange('by-headers', 'by-topic', 'to.headers.#');
    for (const queue of ['odd', 'even', 'rest']) await channel.assertQueue(queue);
    await channel.bindQueue('odd', 'by-topic', '*.odd');
    await channel.bindQueue('even', 'by-headers', '', { 'x-match': 'all', kind: 'even', small: true });
    await channel.bindQueue('rest', 'other', '');
    await confirmed(channel, 'by-topic', 'number.odd', 'odd');
    await confirmed(channel, 'by-topic', 'to.headers', 'even', { headers: { kind: 'even', small: true } });
    await confirmed(channel, 'by-topic', 'to.headers', 'nowhere', { headers: { kind: 'even' } });
    await confirmed(channel, 'by-topic', 'somewhere.else', 'rest');
    await channel.unbindQueue('odd', 'by-topic', '*.odd');
    await confirmed(channel, 'by-topic', 'number.odd', 'unbound');
    const all = async (queue) => {
      const bodies = [];
      for (let message; (message = await channel.get(queue, { noAck: true })); ) bodies.push(message.content.toString());
      return bodies;
    };
    const got = [await all('odd'), await all('even'), (await all('rest')).filter((body) => body !== 'nowhere')];
    assert.deepEqual(got, [['odd'], ['even'], ['rest', 'unbound']]);
  },

  async directReplies(channel, connection) {
    await channel.assertQueue('questions');
    const server = await connection.createChannel();
    await server.consume('questions', ({ content, properties }) => {
      server.sendToQueue(properties.replyTo, Buffer.from(`${content}!`), { correlationId: properties.correlationId });
    }, { noAck: true });
    const { next } = await consume(channel, 'amq.rabbitmq.reply-to', { noAck: true });
    for (const correlationId of ['1', '2']) {
      channel.sendToQueue('questions', Buffer.from('how'), { replyTo: 'amq.rabbitmq.reply-to', correlationId });
    }
    for (const id of ['1', '2']) {
      const { content, properties } = await next();
      assert.deepEqual([content.toString(), properties.correlationId], ['how!', id]);
    }
    await refused(406, (other) => other.consume('amq.rabbitmq.reply-to', () => {}, { noAck: false }));
  },

  async queuesThatGoByThemselves(channel) {
    const owner = await connect();
    const ofOwner = await owner.createChannel();
    const { queue } = await ofOwner.assertQueue('', { exclusive: true });
    assert.match(queue, /^amq\.gen-/);
    await refused(405, (other) => other.checkQueue(queue));
    await owner.close();
    await refused(404, (other) => other.checkQueue(queue));
    await channel.assertQueue('last-one-out', { autoDelete: true });
    const [one, two] = [await consume(channel, 'last-one-out'), await consume(channel, 'last-one-out')];
    await channel.cancel(one.consumerTag);
    assert.equal((await channel.checkQueue('last-one-out')).consumerCount, 1);
    await channel.cancel(two.consumerTag);
    await refused(404, (other) => other.checkQueue('last-one-out'));
    await channel.assertExchange('unbound-and-gone', 'fanout', { autoDelete: true });
    await channel.assertQueue('bound');
    await channel.bindQueue('bound', 'unbound-and-gone', '');
    await channel.deleteQueue('bound');
    await refused(404, (other) => other.checkExchange('unbound-and-gone'));
  },

  async onlyOneConsumerWhereOneIsWanted(channel, connection) {
    await channel.assertQueue('mine', {});
    await channel.consume('mine', () => {}, { exclusive: true });
    await refused(403, (other) => other.consume('mine', () => {}));
    await channel.assertQueue('in-turn', { arguments: { 'x-single-active-consumer': true } });
    const second = await connection.createChannel();
    const [active, waiting] = [await consume(channel, 'in-turn', { noAck: true }), await consume(second, 'in-turn', { noAck: true })];
    await confirmed(channel, '', 'in-turn', 'a');
    assert.equal((await active.next()).content.toString(), 'a');
    await channel.cancel(active.consumerTag);
    await confirmed(channel, '', 'in-turn', 'b');
    assert.equal((await waiting.next()).content.toString(), 'b');
  },

  async copiesAndPreferredConsumers(channel, connection) {
    for (const queue of ['open', 'copied', 'hidden']) await channel.assertQueue(queue);
    const low = await consume(channel, 'open', { noAck: true });
    const high = await consume(await connection.createChannel(), 'open', { noAck: true, priority: 5 });
    await confirmed(channel, '', 'open', 'a', { CC: 'copied', BCC: ['hidden'] });
    assert.equal((await high.next()).content.toString(), 'a');
    assert.deepEqual(low.come, []);
    for (const queue of ['copied', 'hidden']) assert.deepEqual((await take(channel, queue)).properties.headers, { CC: ['copied'] });
  },

  async deliveriesAreCounted(channel) {
    const limited = { 'x-queue-type': 'quorum', 'x-delivery-limit': 1 };
    await channel.assertQueue('buried');
    await channel.assertQueue('limited', { deadLetterExchange: '', deadLetterRoutingKey: 'buried', arguments: limited });
    await confirmed(channel, '', 'limited', 'a');
    const { next } = await consume(channel, 'limited');
    for (let count = 0; count < 2; count++) {
      const message = await next();
      assert.equal(message.properties.headers['x-delivery-count'] ?? 0, count);
      channel.nack(message);
    }
    assert.equal((await take(channel, 'buried')).properties.headers['x-death'][0].reason, 'delivery_limit');
  },

  async streamsByOffset(channel, connection) {
    await channel.assertQueue('flow', { arguments: { 'x-queue-type': 'stream' } });
    for (const body of '01234') await confirmed(channel, '', 'flow', body);
    const hourAgo = { '!': 'timestamp', value: Math.floor(Date.now() / 1000) - 3600 };
    for (const [offset, expected] of [['first', '01234'], [3, '34'], ['last', '4'], ['1h', '01234'], [hourAgo, '01234']]) {
      const reader = await connection.createChannel();
      await reader.prefetch(10);
      const { next } = await consume(reader, 'flow', { arguments: { 'x-stream-offset': offset } });
      for (const body of expected) {
        const { content, properties } = await next();
        assert.deepEqual([content.toString(), properties.headers['x-stream-offset']], [body, Number(body)]);
      }
      await reader.close();
    }
    await refused(406, (other) => other.consume('flow', () => {}));
  },

  async consumersHearOfAQueueThatGoes(channel) {
    await channel.assertQueue('short-lived');
    const { next } = await consume(channel, 'short-lived');
    await channel.deleteQueue('short-lived');
    assert.equal(await next(), null, 'a cancelled consumer is given null');
  },

  async errorsCloseTheChannelAlone(channel) {
    await channel.assertQueue('durable', { durable: true });
    await channel.assertExchange('typed', 'direct');
    await refused(404, (other) => other.checkQueue('missing'));
    await refused(404, (other) => other.checkExchange('missing'));
    await refused(404, (other) => other.bindQueue('durable', 'missing', ''));
    await refused(404, (other) => other.publish('missing', '', Buffer.alloc(0)));
    await refused(406, (other) => other.assertQueue('durable', { durable: false }));
    await refused(406, (other) => other.assertQueue('durable', { durable: true, messageTtl: 5 }));
    await refused(406, (other) => other.assertExchange('typed', 'fanout'));
    await refused(406, (other) => other.ack({ fields: { deliveryTag: 7 } }));
    await refused(406, (other) => other.assertQueue('odd', { messageTtl: -1 }));
    await refused(406, async (other) => {
      await channel.sendToQueue('durable', Buffer.from('x'));
      await channel.waitForConfirms();
      await other.deleteQueue('durable', { ifEmpty: true });
    });
    await refused(406, (other) => other.publish('', 'durable', Buffer.alloc(0), { userId: 'somebody' }));
    await refused(403, (other) => other.assertExchange('amq.own', 'fanout'));
    await refused(403, (other) => other.publish('typed-internal', '', Buffer.alloc(0)), (other) => other.assertExchange('typed-internal', 'fanout', { internal: true }));
    assert.equal((await channel.checkQueue('durable')).messageCount, 1, 'the connection and its other channels go on');
  },

  async whoMayConnect() {
    await assert.rejects(amqp.connect(`amqp://guest:wrong@127.0.0.1:${PORT}`), /ACCESS[_-]REFUSED/);
    await assert.rejects(amqp.connect(`amqp://guest:guest@127.0.0.1:${PORT}/missing`), /ConnectionClose/);
    const credentials = amqp.credentials.amqplain('guest', 'guest');
    await (await amqp.connect(`amqp://127.0.0.1:${PORT}?frameMax=8192&channelMax=3`, { credentials })).close();
  },

  async aSecretCanBeRenewed(channel, connection) {
    const renewed = once(connection, 'update-secret-ok');
    await soon(connection.updateSecret(Buffer.from('guest'), 'renewed'), 'the new secret');
    await soon(renewed, 'the event');
    await channel.assertQueue('after-a-secret');
  },

  async idleWithHeartbeats() {
    const connection = await amqp.connect(`amqp://guest:guest@127.0.0.1:${PORT}/?heartbeat=1`);
    connection.on('error', (error) => assert.fail(error));
    await sleep(3500);
    await (await connection.createChannel()).assertQueue('after-a-while');
    await connection.close();
  },
};

/** Fails unless the broker closes a channel on which `act` is done with `code`, and leaves the channel's connection open. */
async function refused(code, act, prepare = () => {}) {
  const connection = await connect();
  const channel = await connection.createChannel();
  await prepare(channel);
  const error = once(channel, 'error');
  await Promise.resolve(act(channel)).catch(() => {});
  assert.equal((await soon(error, `the error ${code}`))[0].code, code);
  await (await connection.createChannel()).close();
  await connection.close();
}

async function main() {
  for (const [name, promise] of Object.entries(promises)) {
    const connection = await connect();
    const channel = await connection.createConfirmChannel();
    try {
      await promise(channel, connection);
    } catch (error) {
      console.log(`${name}: ${error.stack}`);
      process.exit(1);
    }
    // A connection of this client that is closed may leave behind what its channels were still about to say.
    await channel.close();
    await connection.close();
    console.log(`${name}: holds`);
  }
}

main();
