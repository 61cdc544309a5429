"""Evidence of drills: signed reports, which an auditor verifies with the public key alone."""
