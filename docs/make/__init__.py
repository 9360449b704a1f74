"""Build the documentation as a site that needs no network: `make docs`."""
