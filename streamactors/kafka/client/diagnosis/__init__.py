"""Why a client cannot connect, was refused, or failed: signs in librdkafka's log and answers become an error that names the way out."""
