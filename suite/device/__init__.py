"""What a run measures on: one small interface, and a file behind it for each kind of device. Nothing else asks which kind it is."""
