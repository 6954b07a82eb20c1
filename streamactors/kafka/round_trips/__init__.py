"""What reads topics and writes topics in one run.

transactional   reads, processes and writes exactly once
through         writes a stream to a topic in transactions and reads it back
retry_topics    writes records that have failed to topics, and reads them again when they are due"""
