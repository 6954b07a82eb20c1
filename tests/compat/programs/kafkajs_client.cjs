// A broker as KafkaJS sees it: each case prints one line, "ok NAME" or "failed NAME: why". Usage: node FILE HOST:PORT
'use strict'
const assert = require('node:assert/strict')
const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = require('kafkajs')

const kafka = new Kafka({ clientId: 'compat', brokers: [process.argv[2]], logLevel: logLevel.NOTHING })
const admin = kafka.admin()
let names = 0
const fresh = (kind) => `${kind}-${process.pid}-${names++}`

async function topic(partitions = 1, entries = []) {
  const name = fresh('topic')
  assert.equal(await admin.createTopics({ topics: [{ topic: name, numPartitions: partitions, configEntries: entries }] }), true)
  return name
}

async function producing(options, use) {
  const producer = kafka.producer(options)
  await producer.connect()
  try { return await use(producer) } finally { await producer.disconnect() }
}

async function read(name, count, { groupId = fresh('group'), fromBeginning = true, act = async () => {} } = {}) {
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topic: name, fromBeginning })
  const found = []
  try {
    await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`${found.length} of ${count} records`)), 30000)
      consumer.run({
        eachMessage: async ({ partition, message }) => {
          found.push({ partition, ...message })
          await act(consumer, found)
          if (found.length === count) { clearTimeout(late); resolve() }
        },
      }).catch(reject)
    })
  } finally { await consumer.disconnect() }
  return found
}

const cases = {
  async 'records keep key, value, headers and timestamp'() {
    const name = await topic()
    await producing({}, (p) => p.send({ topic: name, messages: [{ key: 'k', value: 'v', headers: { h: 'x' }, timestamp: '1700000000123' }] }))
    const [record] = await read(name, 1)
    assert.deepEqual([record.key.toString(), record.value.toString(), record.headers.h.toString(), record.timestamp, record.offset],
      ['k', 'v', 'x', '1700000000123', '0'])
  },
  async 'a null value stays one'() {
    const name = await topic()
    await producing({}, (p) => p.send({ topic: name, messages: [{ key: 'k', value: null }] }))
    assert.equal((await read(name, 1))[0].value, null)
  },
  async 'gzip goes in and out'() {
    const name = await topic()
    const messages = Array.from({ length: 500 }, (_, n) => ({ value: `value ${n}`.repeat(10) }))
    await producing({}, (p) => p.send({ topic: name, compression: CompressionTypes.GZIP, messages }))
    assert.deepEqual((await read(name, 500)).map((r) => r.value.toString()), messages.map((m) => m.value))
  },
  async 'every kind of acks'() {
    const name = await topic()
    await producing({}, async (p) => {
      for (const acks of [0, 1, -1]) await p.send({ topic: name, acks, messages: [{ value: String(acks) }] })
    })
    assert.deepEqual((await read(name, 3)).map((r) => r.value.toString()), ['0', '1', '-1'])
  },
  async 'several topics in one request'() {
    const [a, b] = [await topic(), await topic(2)]
    await producing({}, (p) => p.sendBatch({ topicMessages: [
      { topic: a, messages: [{ value: 'a' }] },
      { topic: b, messages: [{ value: 'b0', partition: 0 }, { value: 'b1', partition: 1 }] }] }))
    assert.equal((await read(a, 1))[0].value.toString(), 'a')
    assert.deepEqual((await read(b, 2)).map((r) => [r.partition, r.value.toString()]).sort(), [[0, 'b0'], [1, 'b1']])
  },
  async 'an idempotent producer'() {
    const name = await topic()
    await producing({ idempotent: true, maxInFlightRequests: 1 }, async (p) => {
      for (let n = 0; n < 20; n++) await p.send({ topic: name, messages: [{ value: String(n) }] })
    })
    assert.deepEqual((await read(name, 20)).map((r) => r.value.toString()), Array.from({ length: 20 }, (_, n) => String(n)))
  },
  async 'a topic is made by writing to it'() {
    const name = fresh('auto')
    await producing({ allowAutoTopicCreation: true }, (p) => p.send({ topic: name, messages: [{ value: 'x' }] }))
    assert.equal((await read(name, 1)).length, 1)
  },
  async 'a group goes on where it was'() {
    const [name, groupId] = [await topic(), fresh('group')]
    await producing({}, (p) => p.send({ topic: name, messages: [{ value: '1' }, { value: '2' }] }))
    await read(name, 2, { groupId })
    await producing({}, (p) => p.send({ topic: name, messages: [{ value: '3' }] }))
    assert.deepEqual((await read(name, 1, { groupId })).map((r) => r.value.toString()), ['3'])
    const [committed] = await admin.fetchOffsets({ groupId, topics: [name] })
    assert.equal(committed.partitions[0].offset, '3')
  },
  async 'two members share four partitions'() {
    const [name, groupId] = [await topic(4), fresh('group')]
    const members = [0, 1].map(() => kafka.consumer({ groupId, sessionTimeout: 10000, rebalanceTimeout: 10000, heartbeatInterval: 200 }))
    const shares = members.map(() => null)
    try {
      for (const [n, member] of members.entries()) {
        member.on(member.events.GROUP_JOIN, ({ payload }) => { shares[n] = payload.memberAssignment[name] || [] })
        await member.connect()
        await member.subscribe({ topic: name })
        await member.run({ eachMessage: async () => {} })
      }
      await until(() => shares.every((share) => share && share.length === 2))
      assert.deepEqual([...shares[0], ...shares[1]].sort(), [0, 1, 2, 3])
      const { groups: [group] } = await admin.describeGroups([groupId])
      assert.deepEqual([group.state, group.members.length], ['Stable', 2])
      assert.ok((await admin.listGroups()).groups.some((each) => each.groupId === groupId))
    } finally { await Promise.all(members.map((member) => member.disconnect())) }
    await admin.deleteGroups([groupId])
    assert.ok(!(await admin.listGroups()).groups.some((each) => each.groupId === groupId))
  },
  async 'seek goes back'() {
    const name = await topic()
    await producing({}, (p) => p.send({ topic: name, messages: ['0', '1', '2'].map((value) => ({ value })) }))
    const act = async (consumer, found) => { if (found.length === 3) consumer.seek({ topic: name, partition: 0, offset: '1' }) }
    assert.deepEqual((await read(name, 5, { act })).map((r) => r.offset), ['0', '1', '2', '1', '2'])
  },
  async 'a transaction is seen when it is committed, and not when it is aborted'() {
    const name = await topic()
    await producing({ transactionalId: fresh('tx'), maxInFlightRequests: 1, idempotent: true }, async (p) => {
      for (const [value, end] of [['lost', 'abort'], ['kept', 'commit']]) {
        const transaction = await p.transaction()
        await transaction.send({ topic: name, messages: [{ value }] })
        await transaction[end]()
      }
    })
    assert.deepEqual((await read(name, 1)).map((r) => r.value.toString()), ['kept'])
  },
  async 'offsets are committed with a transaction'() {
    const [name, groupId] = [await topic(), fresh('group')]
    await producing({ transactionalId: fresh('tx'), maxInFlightRequests: 1, idempotent: true }, async (p) => {
      const transaction = await p.transaction()
      await transaction.send({ topic: name, messages: [{ value: 'x' }] })
      await transaction.sendOffsets({ consumerGroupId: groupId, topics: [{ topic: name, partitions: [{ partition: 0, offset: '7' }] }] })
      await transaction.commit()
    })
    const [committed] = await admin.fetchOffsets({ groupId, topics: [name] })
    assert.equal(committed.partitions[0].offset, '7')
  },
  async 'topics are described and deleted'() {
    const name = await topic(3)
    const { topics: [described] } = await admin.fetchTopicMetadata({ topics: [name] })
    assert.deepEqual(described.partitions.map((p) => [p.partitionId, p.partitionErrorCode, p.isr]).sort(), [[0, 0, [1]], [1, 0, [1]], [2, 0, [1]]])
    await admin.createPartitions({ topicPartitions: [{ topic: name, count: 5 }] })
    assert.equal((await admin.fetchTopicMetadata({ topics: [name] })).topics[0].partitions.length, 5)
    assert.equal(await admin.createTopics({ topics: [{ topic: name }] }), false)
    await admin.deleteTopics({ topics: [name] })
    assert.ok(!(await admin.listTopics()).includes(name))
    await assert.rejects(admin.deleteTopics({ topics: [name] }), /does not host this topic-partition/)
  },
  async 'settings are described and altered'() {
    const name = await topic(1, [{ name: 'retention.ms', value: '77' }])
    const value = async () => (await admin.describeConfigs({ includeSynonyms: true, resources: [{ type: ConfigResourceTypes.TOPIC, name, configNames: ['retention.ms'] }] }))
      .resources[0].configEntries[0].configValue
    assert.equal(await value(), '77')
    await admin.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name, configEntries: [{ name: 'retention.ms', value: '88' }] }] })
    assert.equal(await value(), '88')
  },
  async 'offsets are listed, found by time, and cut off'() {
    const name = await topic()
    await producing({}, (p) => p.send({ topic: name, messages: [1, 2, 3, 4].map((n) => ({ value: 'x', timestamp: String(1700000000000 + n) })) }))
    assert.deepEqual(await admin.fetchTopicOffsets(name), [{ partition: 0, offset: '4', high: '4', low: '0' }])
    assert.deepEqual(await admin.fetchTopicOffsetsByTimestamp(name, 1700000000003), [{ partition: 0, offset: '2' }])
    await admin.deleteTopicRecords({ topic: name, partitions: [{ partition: 0, offset: '3' }] })
    assert.equal((await admin.fetchTopicOffsets(name))[0].low, '3')
  },
  async 'the cluster is described'() {
    const cluster = await admin.describeCluster()
    assert.deepEqual([cluster.brokers.length, cluster.controller], [1, cluster.brokers[0].nodeId])
  },
  async 'offsets of a group are set and reset'() {
    const [name, groupId] = [await topic(), fresh('group')]
    await producing({}, (p) => p.send({ topic: name, messages: [{ value: 'x' }, { value: 'y' }] }))
    await admin.setOffsets({ groupId, topic: name, partitions: [{ partition: 0, offset: '1' }] })
    assert.equal((await admin.fetchOffsets({ groupId, topics: [name] }))[0].partitions[0].offset, '1')
    await admin.resetOffsets({ groupId, topic: name, earliest: true })
    assert.deepEqual((await read(name, 2, { groupId })).map((r) => r.value.toString()), ['x', 'y'])
  },
}

async function until(condition) {
  const end = Date.now() + 30000
  while (!condition()) {
    if (Date.now() > end) throw new Error('it did not come to pass in 30 s')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

async function main() {
  await admin.connect()
  for (const [name, run] of Object.entries(cases)) {
    try {
      await run()
      console.log(`ok ${name}`)
    } catch (error) {
      console.log(`failed ${name}: ${String(error.stack || error).replace(/\n/g, ' / ')}`)
    }
  }
  await admin.disconnect()
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1) })
