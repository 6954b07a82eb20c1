"""bytewax as its documentation begins: a dataflow from one topic to another. BOOTSTRAP SOURCE TARGET"""

import sys

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

BOOTSTRAP, SOURCE, TARGET = sys.argv[1], sys.argv[2], sys.argv[3]

flow = Dataflow("hello")
messages = kop.input("in", flow, brokers=[BOOTSTRAP], topics=[SOURCE], tail=False)
answers = op.map("upper", messages.oks, lambda message: KafkaSinkMessage(message.key, message.value.upper()))
op.inspect("seen", answers, lambda _step, message: print(message.value.decode()))
kop.output("out", answers, brokers=[BOOTSTRAP], topic=TARGET)
run_main(flow)
