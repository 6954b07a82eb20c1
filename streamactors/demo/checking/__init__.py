"""How the demo checks its totals: the tables that it wrote, compared with what pandas computes from the package."""
