#!/bin/sh
# What librdkafka's tests call as KAFKA_PATH/bin/kafka-topics.sh: the same options, carried out by `streamactors topics`.
set -eu
command= topic= bootstrap= partitions= replicas=
settings=
while [ $# -gt 0 ]; do
    case "$1" in
        --bootstrap-server) bootstrap=$2; shift 2 ;;
        --create) command=create; shift ;;
        --alter) command=alter; shift ;;
        --delete) command=delete; shift ;;
        --topic) topic=$2; shift 2 ;;
        --partitions) partitions=$2; shift 2 ;;
        --replication-factor) replicas=$2; shift 2 ;;
        --config) settings="$settings --set $2"; shift 2 ;;
        *) echo "kafka-topics.sh: $1 is not known here" >&2; exit 2 ;;
    esac
done
set -- topics "$command" --bootstrap "$bootstrap" "$topic"
[ -z "$partitions" ] || set -- "$@" --partitions "$partitions"
[ -z "$replicas" ] || set -- "$@" --replicas "$replicas"
# shellcheck disable=SC2086  # the settings have no spaces
exec "$STREAMACTORS_PYTHON" -m streamactors.cli.main "$@" $settings
