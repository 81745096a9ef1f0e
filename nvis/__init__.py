"""A web page that shows what activates a network's filters and its choice of actions."""
