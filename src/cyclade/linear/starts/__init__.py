"""Ways to a starting point: a path's last solutions, easier penalties, easier losses."""
