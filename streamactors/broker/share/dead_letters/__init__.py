"""Dead letter queues of share groups (KIP-1191): records that a group gives up are written to a topic before they are archived.

`dead_letter` has the rules and the format, `dead_letter_queue` creates the topic and writes to it. `LedSharePartition` asks for both."""
