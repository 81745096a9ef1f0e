"""A page for the browser that shows what a network's filters and choices respond to."""
