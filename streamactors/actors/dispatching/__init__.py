"""The dispatcher: one thread with a mailbox, a selector and a timing wheel."""
