"""The user's side of a running source. `control` has what all sources materialize, and the control that follows a source through its restarts;
`draining_control` adds the result of the stream; `parts` is what both are made of."""
