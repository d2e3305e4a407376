"""From runs to tables, plots and one HTML file."""
