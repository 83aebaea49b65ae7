"""Other formats that a bundle is written as."""
