"""pytest plugin of streamactors: fixtures that a user's tests get by installing the package."""
