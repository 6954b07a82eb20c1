"""Who may connect and what they may do: TLS, logins by SASL, and the authoriser.

The acceptor's listeners carry a `Protection`: `tls` wraps the sockets, `login` (one per connection) runs a mechanism of `sasl/` until the
client has a principal, and `rights` with `acl_authoriser` decides on each request. Credentials and access control entries are
records of the metadata log."""
