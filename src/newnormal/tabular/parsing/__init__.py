"""Lines as samples: where the header is, how cells are written, what each column is."""
