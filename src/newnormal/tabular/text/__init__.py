"""Any input as lines of UTF-8 text: opened, decompressed, decoded, cut."""
