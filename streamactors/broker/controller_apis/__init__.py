"""The requests that only a listener for controllers serves: those of the cluster's brokers, and votes and fetches of other controllers.

One file per API, as in `apis/`; a handler turns the request into a command of `controller/`, or hands it to the quorum. The administrative requests of `apis/` are served
there too (`Api.on_controllers`, `Api.forwarded`), directly or inside an Envelope."""
