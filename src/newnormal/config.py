"""The detector's options, validated in one place, and durations as people write them."""
