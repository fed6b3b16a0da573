"""What the service keeps, in SQLite: samples, alarms, changes, events, alerts and settings."""
