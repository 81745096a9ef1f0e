"""Many processors or machines, through Ray, which this room alone imports, and only when it is asked for."""
