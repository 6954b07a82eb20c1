"""Settings for managed Kafka services, two of them tried on a broker. python examples/recipes/managed_kafka.py"""

from streamactors import Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, Subscriptions


def confluent_cloud(api_key: str, secret: str) -> dict[str, object]:
    return login("PLAIN", api_key, secret)  # pkc-….confluent.cloud:9092


def event_hubs(connection_string: str) -> dict[str, object]:
    return login("PLAIN", "$ConnectionString", connection_string)  # NAMESPACE.servicebus.windows.net:9093


def aiven(user: str, password: str, authority: str) -> dict[str, object]:
    return {**login("SCRAM-SHA-256", user, password), "ssl.ca.location": authority}  # ca.pem of the project


def redpanda_cloud(user: str, password: str) -> dict[str, object]:
    return login("SCRAM-SHA-256", user, password)


def msk_iam(region: str) -> dict[str, object]:
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    def token(_: str) -> tuple[str, float]:
        value, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
        return value, expires_ms / 1000  # seconds since 1970

    return {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": token}  # port 9098


def login(mechanism: str, user: str, password: str) -> dict[str, object]:
    names = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    return {"security.protocol": "SASL_SSL", **names}


def main(_: Cluster) -> None:
    with Cluster(
        users={"the-key": "the-secret"}, tls=True
    ) as secured:  # in your program: the address of the service
        address = secured.bootstrap_servers
        authority = secured.client_properties("the-key")["ssl.ca.location"]
        secured.create_topic("orders")
        trust = {"ssl.ca.location": authority}  # only here: services have certificates that systems trust
        for properties in (
            {**confluent_cloud("the-key", "the-secret"), **trust},
            aiven("the-key", "the-secret", authority),
        ):
            settings = ConsumerSettings(
                address, group_id="reader", auto_offset_reset="earliest", properties=properties
            )
            writer = Producer.plain_sink(settings.as_producer())
            Source.single(ProducerRecord("orders", "tea")).run_with(writer).result(30)
            orders = Consumer.plain_source(settings, Subscriptions.assignment(("orders", 0)), until="end")
            print(properties["sasl.mechanism"], orders.run_with(Sink.count()).result(30))
        print("the secret is shown:", "the-secret" in repr(settings))


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
