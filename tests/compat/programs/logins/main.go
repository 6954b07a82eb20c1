// Logs in with one of three Go clients, writes one record and reads it again; prints "ok" or "refused: why".
//
// Arguments: client, servers, CA file, mechanism (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, or "" for TLS alone), user, password or
// token, topic, certificate file, key file (both may be "").
package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	kgosasl "github.com/segmentio/kafka-go/sasl"
	kgoplain "github.com/segmentio/kafka-go/sasl/plain"
	kgoscram "github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	xdgscram "github.com/xdg-go/scram"
)

const within = 20 * time.Second

type login struct {
	servers, mechanism, user, secret, topic string
	tls                                     *tls.Config
}

func main() {
	a := os.Args[1:]
	authority, err := os.ReadFile(a[2])
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	config := &tls.Config{RootCAs: pool}
	if a[7] != "" {
		pair, err := tls.LoadX509KeyPair(a[7], a[8])
		must(err)
		config.Certificates = []tls.Certificate{pair}
	}
	l := login{a[1], a[3], a[4], a[5], a[6], config}
	with := map[string]func(login) error{"sarama": withSarama, "franz-go": withFranz, "kafka-go": withKafkaGo}[a[0]]
	if err := with(l); err != nil {
		fmt.Println("refused:", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Println("ok")
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

type token string

func (t token) Token() (*sarama.AccessToken, error) { return &sarama.AccessToken{Token: string(t)}, nil }

type conversation struct {
	hash xdgscram.HashGeneratorFcn
	*xdgscram.ClientConversation
}

func (c *conversation) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClient(user, password, authzID)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

func withSarama(l login) error {
	c := sarama.NewConfig()
	c.Version = sarama.V2_8_0_0
	c.Producer.Return.Successes = true
	c.Metadata.Retry.Max = 1
	c.Net.TLS.Enable, c.Net.TLS.Config = true, l.tls
	if l.mechanism != "" {
		c.Net.SASL.Enable, c.Net.SASL.User, c.Net.SASL.Password = true, l.user, l.secret
		c.Net.SASL.Mechanism = sarama.SASLMechanism(l.mechanism)
		switch l.mechanism {
		case "SCRAM-SHA-256":
			c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: sha256.New} }
		case "SCRAM-SHA-512":
			c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: sha512.New} }
		case "OAUTHBEARER":
			c.Net.SASL.TokenProvider = token(l.secret)
		}
	}
	client, err := sarama.NewClient([]string{l.servers}, c)
	if err != nil {
		return err
	}
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return err
	}
	_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: l.topic, Value: sarama.StringEncoder("sarama")})
	if err != nil {
		return err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return err
	}
	part, err := consumer.ConsumePartition(l.topic, 0, offset)
	if err != nil {
		return err
	}
	select {
	case m := <-part.Messages():
		return same(string(m.Value), "sarama")
	case <-time.After(within):
		return fmt.Errorf("nothing came")
	}
}

func withFranz(l login) error {
	options := []kgo.Opt{kgo.SeedBrokers(l.servers), kgo.DialTLSConfig(l.tls), kgo.ConsumeTopics(l.topic),
		kgo.RecordDeliveryTimeout(within), kgo.RetryTimeout(5 * time.Second), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	var mechanism sasl.Mechanism
	switch l.mechanism {
	case "PLAIN":
		mechanism = plain.Auth{User: l.user, Pass: l.secret}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = scram.Auth{User: l.user, Pass: l.secret}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = scram.Auth{User: l.user, Pass: l.secret}.AsSha512Mechanism()
	case "OAUTHBEARER":
		mechanism = oauth.Auth{Token: l.secret}.AsMechanism()
	}
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: l.topic, Value: []byte("franz-go")}).FirstErr(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			if string(record.Value) == "franz-go" {
				return nil
			}
		}
	}
	return ctx.Err()
}

func withKafkaGo(l login) error {
	var mechanism kgosasl.Mechanism
	var err error
	switch l.mechanism {
	case "PLAIN":
		mechanism = kgoplain.Mechanism{Username: l.user, Password: l.secret}
	case "SCRAM-SHA-256":
		mechanism, err = kgoscram.Mechanism(kgoscram.SHA256, l.user, l.secret)
	case "SCRAM-SHA-512":
		mechanism, err = kgoscram.Mechanism(kgoscram.SHA512, l.user, l.secret)
	case "OAUTHBEARER":
		return fmt.Errorf("kafka-go has no OAUTHBEARER")
	}
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	dialer := &kafka.Dialer{Timeout: within, TLS: l.tls, SASLMechanism: mechanism}
	conn, err := dialer.DialLeader(ctx, "tcp", l.servers, l.topic, 0)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.WriteMessages(kafka.Message{Value: []byte("kafka-go")}); err != nil {
		return err
	}
	last, err := conn.ReadLastOffset()
	if err != nil {
		return err
	}
	if _, err := conn.Seek(last-1, kafka.SeekAbsolute); err != nil {
		return err
	}
	message, err := conn.ReadMessage(1 << 20)
	if err != nil {
		return err
	}
	return same(string(message.Value), "kafka-go")
}

func same(found, wanted string) error {
	if found != wanted {
		return fmt.Errorf("read %q instead of %q", found, wanted)
	}
	return nil
}
