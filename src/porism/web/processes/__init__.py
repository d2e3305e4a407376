"""What runs in the server's workers, and what makes the catalogue: here torch and sympy are imported."""
