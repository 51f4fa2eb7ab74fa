"""What `caption` takes and shows: options, engines, views, figures."""
