"""The bundle: one run's directory, its schema, writer, reader and manifest."""
