// Logs in with KafkaJS, writes one record and reads it again; prints "ok" or "refused: why".
// Arguments: servers, CA file, mechanism ("" for TLS alone), user, password or token, topic, certificate file, key file (both may be "").
'use strict';
const fs = require('fs');
const { Kafka, logLevel } = require('kafkajs');

const [servers, ca, mechanism, user, secret, topic, certificate, key] = process.argv.slice(2);
const ssl = { ca: [fs.readFileSync(ca)] };
if (certificate) Object.assign(ssl, { cert: fs.readFileSync(certificate), key: fs.readFileSync(key) });
let sasl;
if (mechanism === 'OAUTHBEARER') sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: secret }) };
else if (mechanism) sasl = { mechanism: mechanism.toLowerCase(), username: user, password: secret };
const kafka = new Kafka({ brokers: [servers], ssl, sasl, logLevel: logLevel.NOTHING, retry: { retries: 1 } });

async function main() {
  const producer = kafka.producer();
  await producer.connect();
  const [sent] = await producer.send({ topic, messages: [{ value: 'KafkaJS' }] });
  const consumer = kafka.consumer({ groupId: 'kafkajs-' + process.pid });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise((found, failed) => {
    setTimeout(() => failed(new Error('nothing came')), 20000).unref();
    consumer.run({ eachMessage: async ({ message }) => message.offset === sent.baseOffset && found() });
  });
}

main().then(() => 'ok', (error) => 'refused: ' + String(error.message).replace(/\n/g, ' ')).then((told) => {
  console.log(told);
  process.exit(0);
});
