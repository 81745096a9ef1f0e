"""The frameworks, one file each, with the interface of `networks.interface`."""
