"""Seeds that were violations once: each is run always."""

FOUND = ()

# seeds that are violations still, with the reason; the test fails when one is cured
KNOWN = {}
