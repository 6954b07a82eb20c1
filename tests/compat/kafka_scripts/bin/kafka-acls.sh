#!/bin/sh
# What librdkafka's tests call as KAFKA_PATH/bin/kafka-acls.sh: the same options, carried out by `streamactors acls`.
set -eu
bootstrap= principal= operation= topic= host=* deny=
while [ $# -gt 0 ]; do
    case "$1" in
        --bootstrap-server) bootstrap=$2; shift 2 ;;
        --add) shift ;;
        --allow-principal) principal=${2#User:}; shift 2 ;;
        --deny-principal) principal=${2#User:}; deny=--deny; shift 2 ;;
        --allow-host | --deny-host) host=$2; shift 2 ;;
        --operation) operation=$2; shift 2 ;;
        --topic) topic=$2; shift 2 ;;
        *) echo "kafka-acls.sh: $1 is not known here" >&2; exit 2 ;;
    esac
done
exec "$STREAMACTORS_PYTHON" -m streamactors.cli.main acls add --bootstrap "$bootstrap" $deny --host "$host" "$principal" "$operation" topic "$topic"
