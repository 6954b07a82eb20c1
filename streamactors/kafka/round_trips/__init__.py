"""What reads topics and writes topics in one run.

transactional   reads, processes and writes exactly once
through         writes a stream to a topic in transactions and reads it back
stored_letters  reads topics of dead letters, and sends the letters again
retry_topics    writes records that have failed to topics, and reads them again when they are due"""
