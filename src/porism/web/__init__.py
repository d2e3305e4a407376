"""`porism serve`: the page. The server answers from files and formulas; torch and sympy live in its workers (work/)."""
