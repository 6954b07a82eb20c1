"""The operators, one file per family. Each class says when it emits, back-pressures, completes and cancels."""
