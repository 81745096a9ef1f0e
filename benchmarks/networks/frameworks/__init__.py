"""The frameworks, each a file of its own behind `networks.interface`."""
